# What `cmake --install` puts where: libraries, headers, CMake package, pkg-config files, manual.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
set(config_dir ${PROJECT_BINARY_DIR}/package)

install(FILES include/cairn/cairn.h include/cairn/cairn_errors.h include/cairn/cairn.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
install(TARGETS cairn EXPORT cairnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cairn_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT cairnTargets NAMESPACE cairn:: DESTINATION ${package_dir})
if(cairn_have_MPI)
    install(FILES include/cairn/cairn_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
    install(TARGETS cairn_mpi EXPORT cairnMpiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(TARGETS cairn_mpi_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT cairnMpiTargets NAMESPACE cairn:: DESTINATION ${package_dir})
endif()

if(cairn_have_UCX)
    install(FILES include/cairn/cairn_ucx.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
    install(TARGETS cairn_ucx EXPORT cairnUcxTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT cairnUcxTargets NAMESPACE cairn:: DESTINATION ${package_dir})
endif()

# As source: module files fit one version of one compiler.
install(FILES bindings/fortran/cairn.f90 bindings/fortran/cairn_mpi.f90
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)

configure_package_config_file(cmake/cairnConfig.cmake.in ${config_dir}/cairnConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${config_dir}/cairnConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
install(FILES ${config_dir}/cairnConfig.cmake ${config_dir}/cairnConfigVersion.cmake
    DESTINATION ${package_dir})

# The pkg-config files find their prefix from where they lie, so that a tree can be moved. Outside of
# the system's own directories a program needs a path to the library to start.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(cairn_pc_rpath "-Wl,-rpath,\${libdir} ")
endif()
file(RELATIVE_PATH cairn_up
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" cairn_up "${cairn_up}")
set(pc_files cairn)
if(cairn_have_MPI)
    list(APPEND pc_files cairn_mpi)
endif()
if(cairn_have_UCX)
    list(APPEND pc_files cairn_ucx)
endif()
foreach(pc ${pc_files})
    configure_file(cmake/${pc}.pc.in ${config_dir}/${pc}.pc @ONLY)
    install(FILES ${config_dir}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES docs/man/cairnd.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
# The systemd unit needs the installed path of the program, which is known only at install time.
install(CODE "set(CAIRN_BINDIR \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
    configure_file(${PROJECT_SOURCE_DIR}/dist/cairnd@.service
        ${PROJECT_BINARY_DIR}/cairnd@.service @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/cairnd@.service DESTINATION lib/systemd/system)
# For administrators: files to start from.
install(FILES dist/cairn.logrotate dist/cairn.tmpfiles dist/cairn.lua dist/prometheus.yml dist/grafana.json
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/cairn/admin)
install(PROGRAMS dist/slurm/prolog dist/slurm/epilog DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/cairn/admin/slurm)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)
install(FILES dist/slurm/job.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/cairn/admin/slurm)

install(DIRECTORY share/platforms share/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn)
install(FILES share/completions/cairn.bash RENAME cairn
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES share/completions/_cairn DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES share/completions/cairn.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
