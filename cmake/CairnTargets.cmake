# How Cairn's objects are made: one set of flags, sources listed folder by folder.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(cairn_flags INTERFACE)
target_compile_definitions(cairn_flags INTERFACE _GNU_SOURCE
    $<$<BOOL:${CAIRN_FAULTS}>:CRN_FAULTS>)
target_include_directories(cairn_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(cairn_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes
    -Wformat=2 -fno-common $<$<BOOL:${CAIRN_WERROR}>:-Werror>)
if(CAIRN_SANITIZE)
    target_compile_options(cairn_flags INTERFACE -fsanitize=${CAIRN_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(cairn_flags INTERFACE -fsanitize=${CAIRN_SANITIZE})
endif()

# cairn_sources(FOLDER files...): the folder's objects, part of libcairn and of the test library.
set_property(GLOBAL PROPERTY cairn_objects "")
function(cairn_sources folder)
    add_library(cairn_${folder} OBJECT ${ARGN})
    target_link_libraries(cairn_${folder} PRIVATE cairn_flags cairn_deps)
    set_property(GLOBAL APPEND PROPERTY cairn_objects $<TARGET_OBJECTS:cairn_${folder}>)
endfunction()

# cairn_unit_tests(FOLDER files...): one cmocka binary a file, internals visible.
function(cairn_unit_tests folder)
    if(NOT CAIRN_TESTS)
        return()
    endif()
    foreach(file ${ARGN})
        get_filename_component(name ${file} NAME_WE)
        set(target unit_${folder}_${name})
        add_executable(${target} ${file})
        target_link_libraries(${target} PRIVATE cairn_testing cairn_flags cairn_deps PkgConfig::cmocka)
        target_compile_definitions(${target} PRIVATE CRN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        add_test(NAME ${folder}/${name} COMMAND ${target})
        set_tests_properties(${folder}/${name} PROPERTIES LABELS unit TIMEOUT 120)
    endforeach()
endfunction()
