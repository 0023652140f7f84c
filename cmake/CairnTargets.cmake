# How Cairn's objects are made: one set of flags, sources listed folder by folder.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(cairn_flags INTERFACE)
target_compile_definitions(cairn_flags INTERFACE _GNU_SOURCE
    $<$<BOOL:${CAIRN_FAULTS}>:CRN_FAULTS>)
target_include_directories(cairn_flags INTERFACE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(cairn_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes
    -Wformat=2 -fno-common $<$<BOOL:${CAIRN_WERROR}>:-Werror>)
if(CAIRN_SANITIZE)
    target_compile_options(cairn_flags INTERFACE -fsanitize=${CAIRN_SANITIZE}
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(cairn_flags INTERFACE -fsanitize=${CAIRN_SANITIZE})
endif()

# cairn_sources(FOLDER files...): the folder's objects, part of libcairn.
# cairn_lab_sources(FOLDER files...): the same for cairn_lab, which applications never load: simulators,
# tuner, policies and the broker's queue. The programs and the tests link it.
foreach(library cairn lab)
    set_property(GLOBAL PROPERTY ${library}_objects "")
endforeach()
function(cairn_objects library target)
    add_library(${target} OBJECT ${ARGN})
    target_link_libraries(${target} PRIVATE cairn_flags cairn_deps)
    set_property(GLOBAL APPEND PROPERTY ${library}_objects $<TARGET_OBJECTS:${target}>)
endfunction()
function(cairn_sources folder)
    cairn_objects(cairn cairn_${folder} ${ARGN})
endfunction()
function(cairn_lab_sources folder)
    cairn_objects(lab cairn_lab_${folder} ${ARGN})
endfunction()

# cairn_program(NAME files...): an installed program over the static library. One that needs MPI
# links cairn_mpi_static too, one that simulates or decides turns cairn_lab.
function(cairn_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE cairn_static cairn_flags cairn_deps)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
