# SPDX-License-Identifier: BSD-3-Clause
"""Spack package: copy it to a repository's packages/cairn/package.py."""
from spack.package import *


class Cairn(CMakePackage):
    """Checkpoints at memory speed for MPI and GPU applications."""

    license("BSD-3-Clause")
    version("main", branch="main")

    variant("mpi", default=True, description="Sessions of MPI programs")
    variant("hdf5", default=True, description="cairn extract writes HDF5; ingest reads it")
    variant("broker", default=True, description="cairn-broker")
    variant("compression", default=True, description="zstd, lz4 and zlib")

    depends_on("c", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("inih")
    depends_on("xxhash")
    depends_on("mpi", when="+mpi")
    depends_on("hdf5", when="+hdf5")
    depends_on("libevent@2.1:", when="+broker")
    for library in ("zstd", "lz4", "zlib-api"):
        depends_on(library, when="+compression")

    def cmake_args(self):
        args = [self.define("CAIRN_TESTS", False), self.define("CAIRN_BENCH", False),
                self.define("CAIRN_WITH_FORTRAN", "OFF")]
        for option, variant in (("MPI", "mpi"), ("HDF5", "hdf5"), ("BROKER", "broker"),
                                ("ZSTD", "compression"), ("LZ4", "compression"),
                                ("ZLIB", "compression")):
            args.append(self.define(f"CAIRN_WITH_{option}",
                                    "ON" if self.spec.satisfies(f"+{variant}") else "OFF"))
        return args
