# How tests are run: under `deadline`, which dumps the stacks of everything that still runs when
# time is up, and reports processes that a test leaves behind.
#
# Labels: unit, mpi, e2e, crash, install, slow.

# cairn_test(NAME label seconds command...): seconds are what an idle machine needs at the most. The
# deadline ends tests that hang, so it leaves room for a load of 30 and for sanitizers.
function(cairn_test name label seconds)
    math(EXPR seconds "10 * ${seconds}")
    if(seconds GREATER 3600)
        set(seconds 3600)
    endif()
    math(EXPR hard "${seconds} + 30") # the deadline comes first, ctest's limit is the backstop
    add_test(NAME ${name} COMMAND deadline ${seconds} ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${hard})
endfunction()

# cairn_fixtures(files...): what several tests share, in one library. Names begin with test_.
if(CAIRN_TESTS)
    add_library(cairn_fixtures STATIC EXCLUDE_FROM_ALL)
    target_link_libraries(cairn_fixtures PRIVATE
        cairn_testing cairn_flags cairn_deps PkgConfig::cmocka)
    target_compile_definitions(cairn_fixtures PRIVATE CRN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()
function(cairn_fixtures)
    if(CAIRN_TESTS)
        list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
        target_sources(cairn_fixtures PRIVATE ${ARGN})
    endif()
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
        target_link_libraries(${target} PRIVATE
            cairn_fixtures cairn_testing cairn_flags cairn_deps PkgConfig::cmocka)
        target_compile_definitions(${target} PRIVATE CRN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        cairn_test(${folder}/${name} unit 120 $<TARGET_FILE:${target}>)
    endforeach()
endfunction()

# cairn_mpi_test(NAME ranks program args...): program is a target. Nothing without MPI.
function(cairn_mpi_test name ranks program)
    if(NOT cairn_have_MPI OR NOT CAIRN_TESTS)
        return()
    endif()
    cairn_test(${name} mpi 120 ${PROJECT_SOURCE_DIR}/tools/mpiexec ${PROJECT_BINARY_DIR}
        -n ${ranks} $<TARGET_FILE:${program}> ${ARGN})
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
endfunction()

# cairn_script_test(NAME label seconds script args...): a script that finds the programs of this
# build in $CAIRN_TEST_BUILD and the sources in $CAIRN_TEST_SOURCE. It starts ranks with
# "$CAIRN_TEST_SOURCE/tools/mpiexec" "$CAIRN_TEST_BUILD" -n 4 program.
function(cairn_script_test name label seconds script)
    if(NOT CAIRN_TESTS)
        return()
    endif()
    cairn_test(${name} ${label} ${seconds} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
        "CAIRN_TEST_BUILD=${PROJECT_BINARY_DIR};CAIRN_TEST_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
