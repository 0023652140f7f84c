-- Lmod module file; set prefix to where `make install PREFIX=...` put Cairn.
local prefix = "/opt/cairn/0.2.0"
help([[Cairn: checkpoints at memory speed. `man cairn`, `cairn help`.]])
whatis("Name: cairn")
whatis("Description: checkpoint runtime for MPI and GPU applications")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
setenv("CAIRN_ROOT", prefix)
