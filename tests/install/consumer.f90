! SPDX-License-Identifier: BSD-3-Clause
! Takes a checkpoint through the installed module, without MPI, and reads it back.
program consumer
    use, intrinsic :: iso_c_binding
    use cairn
    implicit none

    integer, target :: numbers(3) = [1, 2, 3]
    type(cairn_session) :: session
    type(cairn_stats_t) :: stats
    integer(c_int64_t) :: version = 7
    integer(c_int64_t), allocatable :: dims(:)
    integer(c_int) :: type
    integer(c_int64_t), allocatable :: versions(:)
    character(:), allocatable :: region
    logical :: reached

    if (cairn_rank(session) /= -1) error stop "no session has rank -1"
    if (cairn_open(session, settings=["files=0"]) /= CAIRN_ECONFIG) error stop "a wrong setting"
    call check(cairn_open(session, settings=[character(40) :: "arena_bytes=1M", &
                                             "persistent_every=1"]))
    if (cairn_rank(session) /= 0 .or. cairn_ranks(session) /= 1) error stop "not one rank"
    if (cairn_event_fd(session) < 0) error stop "no descriptor"
    call check(cairn_protect(session, "numbers", c_loc(numbers), CAIRN_I32, 3_c_int64_t))
    call check(cairn_checkpoint(session, "consumer", version, ["numbers"]))
    numbers = 0
    call check(cairn_wait(session, "consumer", version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG))
    call check(cairn_test(session, "consumer", version, CAIRN_PERSISTENT, reached))
    call check(cairn_stats(session, "consumer", version, stats))
    call check(cairn_region_info(session, "consumer", version, CAIRN_OWN_RANK, "numbers", &
                                 type, dims))
    version = 0
    call check(cairn_restart(session, "consumer", version))
    if (.not. reached .or. stats%bytes /= 12 .or. type /= CAIRN_I32 .or. any(dims /= [3]) &
        .or. version /= 7 .or. any(numbers /= [1, 2, 3])) error stop "wrong values"
    call check(cairn_checkpoint_with(session, "consumer", 8_c_int64_t, ["numbers"], CAIRN_PERSISTENT, &
                                     protect="none"))
    call check(cairn_wait(session, "consumer", 8_c_int64_t, CAIRN_PROTECTED, CAIRN_WAIT_CONFIG))
    call check(cairn_stats(session, "consumer", 8_c_int64_t, stats))
    if (.not. btest(stats%levels, CAIRN_LOCAL)) error stop "persistent includes local"
    call check(cairn_checkpoint_with(session, "lazy", 1_c_int64_t, flags=CAIRN_LAZY))
    call check(cairn_source_free(session))
    numbers = 0
    call check(cairn_restore(session, "lazy", 1_c_int64_t))
    if (any(numbers /= [1, 2, 3])) error stop "wrong numbers of a lazy checkpoint"
    if (cairn_checkpoint_with(session, "consumer", 9_c_int64_t, protect="xor9") == CAIRN_OK) &
        error stop "an unknown scheme"
    call two_steps
    if (cairn_find(session, "nothing", CAIRN_NEWEST, version) /= CAIRN_ENOENT) error stop "found?"
    if (index(cairn_last_error(), "nothing") == 0) error stop cairn_last_error()
    call check(cairn_close(session))

contains

    ! The same data as cairn_checkpoint takes, kept or not; then all that is known about it.
    subroutine two_steps
        numbers = [4, 5, 6]
        call check(cairn_capture(session, "steps", 1_c_int64_t))
        numbers = 0
        call check(cairn_submit(session))
        call check(cairn_wait(session, "steps", 1_c_int64_t, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG))
        call check(cairn_capture(session, "steps", 2_c_int64_t, ["numbers"]))
        call check(cairn_abandon(session, "steps", 2_c_int64_t, "not wanted"))
        call check(cairn_restore(session, "steps", 1_c_int64_t))
        if (any(numbers /= [4, 5, 6])) error stop "wrong numbers of a capture"
        call check(cairn_list(session, "steps", versions))
        if (any(versions /= [1_c_int64_t]) .or. size(versions) /= 1) error stop "wrong list"
        call check(cairn_region_at(session, "steps", 1_c_int64_t, CAIRN_OWN_RANK, 0, region, type, dims))
        if (region /= "numbers" .or. type /= CAIRN_I32 .or. any(dims /= [3])) error stop "wrong region"
        if (cairn_region_at(session, "steps", 1_c_int64_t, CAIRN_OWN_RANK, 1, region, type, dims) &
            /= CAIRN_ENOENT) error stop "one region too many"
        if (cairn_checkpoint(session, "steps", 3_c_int64_t, [repeat("n", 200)]) == CAIRN_OK) &
            error stop "a name that is too long"
        if (index(cairn_last_error(), repeat("n", 200)) == 0) error stop cairn_last_error()
        call check(cairn_drop_local(session, "steps"))
        call check(cairn_remove(session, "steps", 1_c_int64_t))
        call check(cairn_list(session, "steps", versions))
        if (size(versions) /= 0) error stop "it is not removed"
        if (cairn_error_name(CAIRN_ENOENT) /= "CAIRN_ENOENT" .or. cairn_type_size(CAIRN_F64) /= 8 &
            .or. index(cairn_version_string(), ".") == 0) error stop "wrong constants"
    end subroutine

    subroutine check(rc)
        integer(c_int), intent(in) :: rc
        if (rc /= CAIRN_OK) error stop cairn_last_error()
    end subroutine
end program
