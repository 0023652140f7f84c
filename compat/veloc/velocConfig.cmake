# find_package(veloc): the targets veloc::veloc-client and veloc::veloc-modules, and the variables that
# projects written for VELOC use.
include(CMakeFindDependencyMacro)
find_dependency(MPI COMPONENTS C)
include(${CMAKE_CURRENT_LIST_DIR}/velocTargets.cmake)
get_target_property(VELOC_INCLUDE_DIRS veloc::veloc-client INTERFACE_INCLUDE_DIRECTORIES)
set(VELOC_LIBRARIES veloc::veloc-client)
set(VELOC_FOUND TRUE)
