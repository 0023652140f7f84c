# The libraries: libcairn (shared and static) from the folders' objects, libcairn_mpi and libcairn_ucx on top; cairn_lab,
# which is not installed, for the programs and the tests.
get_property(objects GLOBAL PROPERTY cairn_objects)
get_property(lab_objects GLOBAL PROPERTY lab_objects)

# What a consumer sees of a library: the public headers, and nothing of how it is built.
function(cairn_public_headers)
    foreach(lib ${ARGN})
        target_include_directories(${lib} INTERFACE
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    endforeach()
endfunction()

# Version script, soname, and no symbol left open (a sanitizer's runtime comes with the program).
function(cairn_shared lib map)
    target_link_libraries(${lib} PRIVATE
        $<BUILD_INTERFACE:cairn_flags> $<BUILD_INTERFACE:cairn_deps>)
    target_link_options(${lib} PRIVATE -Wl,--version-script=${map})
    if(NOT CAIRN_SANITIZE)
        target_link_options(${lib} PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(${lib} PROPERTIES LINK_DEPENDS ${map}
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr") # libraries of one installation find each other
        set_target_properties(${lib} PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
endfunction()

add_library(cairn SHARED ${objects})
cairn_shared(cairn ${CMAKE_CURRENT_SOURCE_DIR}/libcairn.map)
add_library(cairn::cairn ALIAS cairn)
add_library(cairn_static STATIC ${objects})
target_link_libraries(cairn_static INTERFACE cairn_flags cairn_deps)
set_target_properties(cairn_static PROPERTIES OUTPUT_NAME cairn)
add_library(cairn_lab STATIC ${lab_objects})
target_link_libraries(cairn_lab PUBLIC cairn_static)
add_library(cairn_testing ALIAS cairn_lab) # unit tests see the internals
cairn_public_headers(cairn cairn_static)

if(cairn_have_MPI)
    set(mpi_sources comm/comm_mpi.c client/open_mpi.c)
    # The error record is plain data; its few functions are linked in rather than exported.
    add_library(cairn_mpi SHARED ${mpi_sources} base/err.c)
    cairn_shared(cairn_mpi ${CMAKE_CURRENT_SOURCE_DIR}/libcairn_mpi.map)
    target_link_libraries(cairn_mpi PUBLIC cairn MPI::MPI_C PRIVATE ${CMAKE_DL_LIBS})
    # Loaded for comm = ucx; built or not, it may be installed later.
    target_compile_definitions(cairn_mpi PRIVATE
        CRN_UCX_LIBRARY="libcairn_ucx.so.${PROJECT_VERSION_MAJOR}")
    set_target_properties(cairn_mpi PROPERTIES EXPORT_NAME mpi OUTPUT_NAME ${CAIRN_MPI_LIBRARY})
    add_library(cairn::mpi ALIAS cairn_mpi)
    add_library(cairn_mpi_static STATIC ${mpi_sources})
    target_link_libraries(cairn_mpi_static PUBLIC cairn_static MPI::MPI_C)
    set_target_properties(cairn_mpi_static PROPERTIES OUTPUT_NAME ${CAIRN_MPI_LIBRARY})
    cairn_public_headers(cairn_mpi cairn_mpi_static)
endif()

if(cairn_have_UCX)
    set(ucx_sources comm/comm_ucx.c comm/ucx_link.c comm/ucx_message.c comm/ucx_net.c
        comm/ucx_tree.c client/open_ucx.c)
    add_library(cairn_ucx SHARED ${ucx_sources} base/err.c base/rng.c base/log.c base/clock.c)
    cairn_shared(cairn_ucx ${CMAKE_CURRENT_SOURCE_DIR}/libcairn_ucx.map)
    target_link_libraries(cairn_ucx PUBLIC cairn PRIVATE $<BUILD_INTERFACE:PkgConfig::ucx>)
    set_target_properties(cairn_ucx PROPERTIES EXPORT_NAME ucx)
    add_library(cairn::ucx ALIAS cairn_ucx)
    cairn_public_headers(cairn_ucx)
endif()

# The node service as a program.
cairn_program(cairnd service/cairnd.c)
if(TARGET cairn_mpi_static)
    target_compile_definitions(cairnd PRIVATE CRN_HAVE_MPI)
    target_link_libraries(cairnd PRIVATE cairn_mpi_static)
endif()
