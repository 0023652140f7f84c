! SPDX-License-Identifier: BSD-3-Clause
! Cairn for Fortran: the functions of cairn.h under their own names. Compile this file with your
! program's compiler and link libcairn; for cairn_open_mpi add cairn_mpi.f90 and libcairn_mpi.
!
! Differences from C: names are plain strings; memory is passed as c_loc(array), so arrays need the
! target attribute; the extents of an array are in Fortran order, the fastest first, and its
! offset in a global array counts from 0. Functions that can fail return a code, CAIRN_OK or negative;
! cairn_last_error() then says what failed. cairn.h documents the contract of each function.
module cairn
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer(c_int), parameter, public :: &
        CAIRN_BYTES = 0, CAIRN_I8 = 1, CAIRN_U8 = 2, CAIRN_I16 = 3, CAIRN_U16 = 4, CAIRN_I32 = 5, &
        CAIRN_U32 = 6, CAIRN_I64 = 7, CAIRN_U64 = 8, CAIRN_F32 = 9, CAIRN_F64 = 10, &
        CAIRN_C64 = 11, CAIRN_C128 = 12, CAIRN_F16 = 13, CAIRN_BF16 = 14, CAIRN_BOOL = 15, &
        CAIRN_F8_E4M3 = 16, CAIRN_F8_E5M2 = 17
    integer(c_int), parameter, public :: CAIRN_LEVEL_NONE = 0, CAIRN_CAPTURED = 10, &
        CAIRN_LOCAL = 20, CAIRN_PROTECTED = 30, CAIRN_PERSISTENT = 40
    integer(c_int), parameter, public :: CAIRN_PHASE_COMPUTE = 0, CAIRN_PHASE_COMMUNICATE = 1, &
        CAIRN_PHASE_IO = 2
    integer(c_int32_t), parameter, public :: CAIRN_LAZY = 1, CAIRN_STREAM_ORDERED = 2
    integer(c_int), parameter, public :: &
        CAIRN_OK = 0, CAIRN_EINVAL = -1, CAIRN_ECONFIG = -2, CAIRN_ESTATE = -3, &
        CAIRN_ENOTSUP = -4, CAIRN_EMISMATCH = -5, CAIRN_EEXIST = -6, CAIRN_EPINNED = -7, &
        CAIRN_EBUSY = -20, CAIRN_ETIMEDOUT = -21, &
        CAIRN_ECANCELED = -22, CAIRN_ESERVICE = -23, CAIRN_EPEER = -24, &
        CAIRN_EUNSAVED = -25, CAIRN_ENOENT = -40, &
        CAIRN_EDAMAGED = -41, CAIRN_EFORMAT = -42, CAIRN_EREJECTED = -43, CAIRN_ENOMEM = -60, &
        CAIRN_EIO = -61, CAIRN_ENOSPC = -62, CAIRN_EPERM = -63, CAIRN_ELIMIT = -64, &
        CAIRN_EMPI = -65, CAIRN_EDEVICE = -66, CAIRN_EBUG = -90
    integer, parameter, public :: CAIRN_MAX_DIMS = 8, CAIRN_MAX_NAME = 128, CAIRN_OWN_RANK = -1
    integer(c_int64_t), parameter, public :: &
        CAIRN_NEWEST = huge(0_c_int64_t), CAIRN_WAIT_CONFIG = -1
    integer, parameter :: PATH_SIZE = 4096

    type, public :: cairn_session
        type(c_ptr) :: ptr = c_null_ptr ! only cairn_mpi uses it
    end type

    type, bind(C), public :: cairn_options_t
        integer(c_size_t) :: size
        type(c_ptr) :: config_file, settings
    end type

    type, bind(C), public :: cairn_stats_t
        integer(c_size_t) :: size
        integer(c_int) :: level, error
        integer(c_int64_t) :: bytes
        real(c_double) :: copy_seconds, blocked_seconds, persistent_seconds
        integer(c_int64_t) :: levels ! btest(levels, CAIRN_LOCAL): has it reached this level?
    end type

    type, bind(C) :: checkpoint_options_t
        integer(c_size_t) :: size
        type(c_ptr) :: regions
        integer(c_int) :: level
        integer(c_int32_t) :: flags
        type(c_ptr) :: protect
    end type

    type, bind(C), public :: cairn_version_info_t
        integer(c_size_t) :: size
        integer(c_int64_t) :: version
        integer(c_int32_t) :: ranks, files
        integer(c_int64_t) :: bytes, created_ns
    end type

    type, bind(C) :: array_t
        integer(c_size_t) :: size
        integer(c_int) :: type
        integer(c_int32_t) :: ndims
        integer(c_int64_t), dimension(CAIRN_MAX_DIMS) :: dims, global_dims, offset
    end type

    public :: cairn_open, cairn_close, cairn_rank, cairn_ranks, cairn_last_error, cairn_error_name, &
        cairn_version_string, cairn_type_size, cairn_protect, cairn_protect_array, &
        cairn_protect_replicated, cairn_unprotect, cairn_gpu_stream, cairn_checkpoint, &
        cairn_checkpoint_with, cairn_source_free, cairn_capture, cairn_submit, cairn_abandon, &
        cairn_test, cairn_wait, cairn_wait_all, cairn_event_fd, cairn_stats, cairn_find, &
        cairn_find_version, cairn_verify, cairn_reject, cairn_restore, cairn_restart, cairn_repairs, &
        cairn_version_info, cairn_region_info, cairn_region_at, cairn_list, cairn_remove, &
        cairn_drop_local, cairn_file_route, cairn_file_restore, cairn_prefetch_enqueue, &
        cairn_prefetch_start, cairn_prefetch_cancel, cairn_prefetch_clear, cairn_should_checkpoint, &
        cairn_should_stop, cairn_phase
    public :: cairn_c_options ! only cairn_mpi uses it

    interface
        function c_open(options, session) bind(C, name="cairn_open") result(rc)
            import
            type(cairn_options_t), intent(in) :: options
            type(c_ptr), intent(out) :: session
            integer(c_int) :: rc
        end function
        function c_close(session) bind(C, name="cairn_close") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int) :: rc
        end function
        function c_last_error() bind(C, name="cairn_last_error") result(text)
            import
            type(c_ptr) :: text
        end function
        function c_protect(session, region, ptr, type, count) &
            bind(C, name="cairn_protect") result(rc)
            import
            type(c_ptr), value :: session, ptr
            character(kind=c_char), intent(in) :: region(*)
            integer(c_int), value :: type
            integer(c_int64_t), value :: count
            integer(c_int) :: rc
        end function
        function c_protect_array(session, region, ptr, array) &
            bind(C, name="cairn_protect_array") result(rc)
            import
            type(c_ptr), value :: session, ptr
            character(kind=c_char), intent(in) :: region(*)
            type(array_t), intent(in) :: array
            integer(c_int) :: rc
        end function
        function c_protect_replicated(session, region, ptr, array) &
            bind(C, name="cairn_protect_replicated") result(rc)
            import
            type(c_ptr), value :: session, ptr
            character(kind=c_char), intent(in) :: region(*)
            type(array_t), intent(in) :: array
            integer(c_int) :: rc
        end function
        function c_unprotect(session, region) bind(C, name="cairn_unprotect") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: region(*)
            integer(c_int) :: rc
        end function
        function c_checkpoint(session, name, version, regions) &
            bind(C, name="cairn_checkpoint") result(rc)
            import
            type(c_ptr), value :: session, regions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_checkpoint_with(session, name, version, options) &
            bind(C, name="cairn_checkpoint_with") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            type(checkpoint_options_t), intent(in) :: options
            integer(c_int) :: rc
        end function
        function c_test(session, name, version, level, reached) &
            bind(C, name="cairn_test") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int), value :: level
            integer(c_int), intent(out) :: reached
            integer(c_int) :: rc
        end function
        function c_wait(session, name, version, level, timeout_ms) &
            bind(C, name="cairn_wait") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version, timeout_ms
            integer(c_int), value :: level
            integer(c_int) :: rc
        end function
        function c_wait_all(session, level, timeout_ms) bind(C, name="cairn_wait_all") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int), value :: level
            integer(c_int64_t), value :: timeout_ms
            integer(c_int) :: rc
        end function
        function c_stats(session, name, version, stats) bind(C, name="cairn_stats") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            type(cairn_stats_t), intent(inout) :: stats
            integer(c_int) :: rc
        end function
        function c_find(session, name, not_newer_than, version) &
            bind(C, name="cairn_find") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: not_newer_than
            integer(c_int64_t), intent(out) :: version
            integer(c_int) :: rc
        end function
        function c_find_version(session, name, version) &
            bind(C, name="cairn_find_version") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_verify(session, name, version) bind(C, name="cairn_verify") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_reject(session, name, version, reason) bind(C, name="cairn_reject") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), reason(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_restore(session, name, version, regions) &
            bind(C, name="cairn_restore") result(rc)
            import
            type(c_ptr), value :: session, regions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_restore_from(session, name, version, old_rank, regions) &
            bind(C, name="cairn_restore_from") result(rc)
            import
            type(c_ptr), value :: session, regions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int), value :: old_rank
            integer(c_int) :: rc
        end function
        function c_restart(session, name, regions, version) &
            bind(C, name="cairn_restart") result(rc)
            import
            type(c_ptr), value :: session, regions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), intent(out) :: version
            integer(c_int) :: rc
        end function
        function c_gpu_stream(session, stream) bind(C, name="cairn_gpu_stream") result(rc)
            import
            type(c_ptr), value :: session, stream
            integer(c_int) :: rc
        end function
        function c_prefetch_enqueue(session, name, version) &
            bind(C, name="cairn_prefetch_enqueue") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_source_free(session) bind(C, name="cairn_source_free") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int) :: rc
        end function
        function c_prefetch_start(session) bind(C, name="cairn_prefetch_start") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int) :: rc
        end function
        function c_prefetch_cancel(session, name, version) &
            bind(C, name="cairn_prefetch_cancel") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_prefetch_clear(session) bind(C, name="cairn_prefetch_clear") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int) :: rc
        end function
        function c_version_info(session, name, version, info) &
            bind(C, name="cairn_version_info") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            type(cairn_version_info_t), intent(inout) :: info
            integer(c_int) :: rc
        end function
        function c_region_info(session, name, version, old_rank, region, array) &
            bind(C, name="cairn_region_info") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), region(*)
            integer(c_int64_t), value :: version
            integer(c_int), value :: old_rank
            type(array_t), intent(inout) :: array
            integer(c_int) :: rc
        end function
        function c_file_route(session, name, version, file, path, path_size) &
            bind(C, name="cairn_file_route") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), file(*)
            integer(c_int64_t), value :: version
            character(kind=c_char), intent(out) :: path(*)
            integer(c_size_t), value :: path_size
            integer(c_int) :: rc
        end function
        function c_file_restore(session, name, version, old_rank, file, path, path_size) &
            bind(C, name="cairn_file_restore") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), file(*)
            integer(c_int64_t), value :: version
            integer(c_int), value :: old_rank
            character(kind=c_char), intent(out) :: path(*)
            integer(c_size_t), value :: path_size
            integer(c_int) :: rc
        end function
        function c_should_checkpoint(session, name, yes) &
            bind(C, name="cairn_should_checkpoint") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(out) :: yes
            integer(c_int) :: rc
        end function
        function c_should_stop(session, yes) bind(C, name="cairn_should_stop") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int), intent(out) :: yes
            integer(c_int) :: rc
        end function
        function c_phase(session, phase) bind(C, name="cairn_phase") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int), value :: phase
            integer(c_int) :: rc
        end function
        function c_repairs(session) bind(C, name="cairn_repairs") result(n)
            import
            type(c_ptr), value :: session
            integer(c_int) :: n
        end function
        function c_rank(session) bind(C, name="cairn_rank") result(n)
            import
            type(c_ptr), value :: session
            integer(c_int) :: n
        end function
        function c_ranks(session) bind(C, name="cairn_ranks") result(n)
            import
            type(c_ptr), value :: session
            integer(c_int) :: n
        end function
        function c_error_name(code) bind(C, name="cairn_error_name") result(text)
            import
            integer(c_int), value :: code
            type(c_ptr) :: text
        end function
        function c_version_string() bind(C, name="cairn_version_string") result(text)
            import
            type(c_ptr) :: text
        end function
        function c_type_size(type) bind(C, name="cairn_type_size") result(n)
            import
            integer(c_int), value :: type
            integer(c_size_t) :: n
        end function
        function c_capture(session, name, version, regions) bind(C, name="cairn_capture") result(rc)
            import
            type(c_ptr), value :: session, regions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_submit(session) bind(C, name="cairn_submit") result(rc)
            import
            type(c_ptr), value :: session
            integer(c_int) :: rc
        end function
        function c_abandon(session, name, version, reason) bind(C, name="cairn_abandon") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*), reason(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_event_fd(session) bind(C, name="cairn_event_fd") result(fd)
            import
            type(c_ptr), value :: session
            integer(c_int) :: fd
        end function
        function c_region_at(session, name, version, old_rank, index, region, region_size, array) &
            bind(C, name="cairn_region_at") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int), value :: old_rank
            integer(c_int32_t), value :: index
            character(kind=c_char), intent(out) :: region(*)
            integer(c_size_t), value :: region_size
            type(array_t), intent(inout) :: array
            integer(c_int) :: rc
        end function
        function c_list(session, name, versions, max, n) bind(C, name="cairn_list") result(rc)
            import
            type(c_ptr), value :: session, versions
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: max
            integer(c_size_t), intent(out) :: n
            integer(c_int) :: rc
        end function
        function c_remove(session, name, version) bind(C, name="cairn_remove") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: version
            integer(c_int) :: rc
        end function
        function c_drop_local(session, name) bind(C, name="cairn_drop_local") result(rc)
            import
            type(c_ptr), value :: session
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int) :: rc
        end function
        function c_strlen(text) bind(C, name="strlen") result(n)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: n
        end function
    end interface

contains

    ! Text, and lists of names. -------------------------------------------------------------------

    pure function c_text(text) result(c)
        character(*), intent(in) :: text
        character(len_trim(text) + 1, kind=c_char) :: c
        c = trim(text)//c_null_char
    end function

    pure function f_text(c) result(text)
        character(*), intent(in) :: c
        character(index(c, c_null_char) - 1) :: text
        text = c(:len(text))
    end function

    ! Builds the C list of names, which points into texts and list: they must outlive it. Null if none.
    ! texts are so long that a name which does not fit is no name to C either.
    function c_names(names, texts, list) result(ptr)
        character(*), intent(in), optional :: names(:)
        character(PATH_SIZE, kind=c_char), allocatable, target, intent(out) :: texts(:)
        type(c_ptr), allocatable, target, intent(out) :: list(:)
        type(c_ptr) :: ptr
        integer :: i

        ptr = c_null_ptr
        if (.not. present(names)) return
        allocate (texts(size(names)), list(size(names) + 1))
        do i = 1, size(names)
            texts(i) = c_text(names(i))
            texts(i)(PATH_SIZE:) = c_null_char
            list(i) = c_loc(texts(i))
        end do
        list(i) = c_null_ptr
        ptr = c_loc(list)
    end function

    function text_at(p) result(text)
        type(c_ptr), intent(in) :: p
        character(:), allocatable :: text
        character(kind=c_char), pointer :: c(:)
        integer :: i

        call c_f_pointer(p, c, [c_strlen(p)])
        allocate (character(size(c)) :: text)
        do i = 1, size(c)
            text(i:i) = c(i)
        end do
    end function

    function cairn_last_error() result(text)
        character(:), allocatable :: text
        text = text_at(c_last_error())
    end function

    function cairn_error_name(code) result(text)
        integer(c_int), intent(in) :: code
        character(:), allocatable :: text
        text = text_at(c_error_name(code))
    end function

    function cairn_version_string() result(text)
        character(:), allocatable :: text
        text = text_at(c_version_string())
    end function

    function cairn_type_size(type) result(n)
        integer(c_int), intent(in) :: type
        integer(c_size_t) :: n
        n = c_type_size(type)
    end function

    ! Session. ------------------------------------------------------------------------------------

    ! settings are "key=value"; they override the file and the environment.
    function cairn_open(session, config_file, settings) result(rc)
        type(cairn_session), intent(out) :: session
        character(*), intent(in), optional :: config_file, settings(:)
        character(:, kind=c_char), allocatable, target :: file
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc
        rc = c_open(cairn_c_options(file, texts, list, config_file, settings), session%ptr)
    end function

    ! The options of C, which point into file, texts and list: they must outlive them.
    function cairn_c_options(file, texts, list, config_file, settings) result(options)
        character(:, kind=c_char), allocatable, target, intent(out) :: file
        character(PATH_SIZE, kind=c_char), allocatable, target, intent(out) :: texts(:)
        type(c_ptr), allocatable, target, intent(out) :: list(:)
        character(*), intent(in), optional :: config_file, settings(:)
        type(cairn_options_t) :: options

        options = cairn_options_t(c_sizeof(options), c_null_ptr, c_names(settings, texts, list))
        if (present(config_file)) then
            file = c_text(config_file)
            options%config_file = c_loc(file)
        end if
    end function

    function cairn_close(session) result(rc)
        type(cairn_session), intent(inout) :: session
        integer(c_int) :: rc
        rc = c_close(session%ptr)
        session%ptr = c_null_ptr
    end function

    ! Both are -1 for a session that is not open.
    function cairn_rank(session) result(n)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: n
        n = c_rank(session%ptr)
    end function

    function cairn_ranks(session) result(n)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: n
        n = c_ranks(session%ptr)
    end function

    ! Regions. ------------------------------------------------------------------------------------

    function cairn_protect(session, region, ptr, type, count) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: region
        type(c_ptr), intent(in) :: ptr
        integer(c_int), intent(in) :: type
        integer(c_int64_t), intent(in) :: count
        integer(c_int) :: rc
        rc = c_protect(session%ptr, c_text(region), ptr, type, count)
    end function

    ! A block of extents dims; global_dims and offset place it in an array that all ranks share.
    function cairn_protect_array(session, region, ptr, type, dims, global_dims, offset) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: region
        type(c_ptr), intent(in) :: ptr
        integer(c_int), intent(in) :: type
        integer(c_int64_t), intent(in) :: dims(:)
        integer(c_int64_t), intent(in), optional :: global_dims(:), offset(:)
        type(array_t) :: a
        integer(c_int) :: rc
        integer :: n

        n = min(size(dims), CAIRN_MAX_DIMS)
        a = array_t(c_sizeof(a), type, size(dims), 0, 0, 0)
        a%dims(:n) = dims(n:1:-1)
        if (present(global_dims)) a%global_dims(:n) = global_dims(n:1:-1)
        if (present(offset)) a%offset(:n) = offset(n:1:-1)
        rc = c_protect_array(session%ptr, c_text(region), ptr, a)
    end function

    ! Data of extents dims that all ranks hold alike.
    function cairn_protect_replicated(session, region, ptr, type, dims) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: region
        type(c_ptr), intent(in) :: ptr
        integer(c_int), intent(in) :: type
        integer(c_int64_t), intent(in) :: dims(:)
        type(array_t) :: a
        integer(c_int) :: rc
        integer :: n

        n = min(size(dims), CAIRN_MAX_DIMS)
        a = array_t(c_sizeof(a), type, size(dims), 0, 0, 0)
        a%dims(:n) = dims(n:1:-1)
        rc = c_protect_replicated(session%ptr, c_text(region), ptr, a)
    end function

    function cairn_unprotect(session, region) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: region
        integer(c_int) :: rc
        rc = c_unprotect(session%ptr, c_text(region))
    end function

    ! Checkpoint. ---------------------------------------------------------------------------------

    function cairn_checkpoint(session, name, version, regions) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        character(*), intent(in), optional :: regions(:)
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc
        rc = c_checkpoint(session%ptr, c_text(name), version, c_names(regions, texts, list))
    end function

    ! The fields of cairn_checkpoint_options in C; an absent one has its default.
    function cairn_checkpoint_with(session, name, version, regions, level, flags, protect) &
        result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        character(*), intent(in), optional :: regions(:), protect
        integer(c_int), intent(in), optional :: level
        integer(c_int32_t), intent(in), optional :: flags
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        character(:, kind=c_char), allocatable, target :: scheme
        type(c_ptr), allocatable, target :: list(:)
        type(checkpoint_options_t) :: options
        integer(c_int) :: rc

        options = checkpoint_options_t(c_sizeof(options), c_names(regions, texts, list), &
            CAIRN_LEVEL_NONE, 0, c_null_ptr)
        if (present(level)) options%level = level
        if (present(flags)) options%flags = flags
        if (present(protect)) then
            scheme = c_text(protect)
            options%protect = c_loc(scheme)
        end if
        rc = c_checkpoint_with(session%ptr, c_text(name), version, options)
    end function

    ! cairn_checkpoint in two steps: capture, then submit or abandon.
    function cairn_capture(session, name, version, regions) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        character(*), intent(in), optional :: regions(:)
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc
        rc = c_capture(session%ptr, c_text(name), version, c_names(regions, texts, list))
    end function

    function cairn_submit(session) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: rc
        rc = c_submit(session%ptr)
    end function

    function cairn_abandon(session, name, version, reason) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name, reason
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_abandon(session%ptr, c_text(name), version, c_text(reason))
    end function

    function cairn_test(session, name, version, level, reached) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int), intent(in) :: level
        logical, intent(out) :: reached
        integer(c_int) :: rc, yes
        yes = 0
        rc = c_test(session%ptr, c_text(name), version, level, yes)
        reached = yes /= 0
    end function

    function cairn_wait(session, name, version, level, timeout_ms) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version, timeout_ms
        integer(c_int), intent(in) :: level
        integer(c_int) :: rc
        rc = c_wait(session%ptr, c_text(name), version, level, timeout_ms)
    end function

    function cairn_wait_all(session, level, timeout_ms) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int), intent(in) :: level
        integer(c_int64_t), intent(in) :: timeout_ms
        integer(c_int) :: rc
        rc = c_wait_all(session%ptr, level, timeout_ms)
    end function

    ! A descriptor for poll(); -1 if there is none.
    function cairn_event_fd(session) result(fd)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: fd
        fd = c_event_fd(session%ptr)
    end function

    ! stream is a CUDA or HIP stream; c_null_ptr returns to the default.
    function cairn_gpu_stream(session, stream) result(rc)
        type(cairn_session), intent(in) :: session
        type(c_ptr), intent(in) :: stream
        integer(c_int) :: rc
        rc = c_gpu_stream(session%ptr, stream)
    end function

    function cairn_prefetch_enqueue(session, name, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_prefetch_enqueue(session%ptr, c_text(name), version)
    end function

    function cairn_source_free(session) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: rc
        rc = c_source_free(session%ptr)
    end function

    function cairn_prefetch_start(session) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: rc
        rc = c_prefetch_start(session%ptr)
    end function

    function cairn_prefetch_cancel(session, name, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_prefetch_cancel(session%ptr, c_text(name), version)
    end function

    function cairn_prefetch_clear(session) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: rc
        rc = c_prefetch_clear(session%ptr)
    end function

    function cairn_stats(session, name, version, stats) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        type(cairn_stats_t), intent(out) :: stats
        integer(c_int) :: rc
        stats%size = c_sizeof(stats)
        rc = c_stats(session%ptr, c_text(name), version, stats)
    end function

    ! Restart. ------------------------------------------------------------------------------------

    function cairn_find(session, name, not_newer_than, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: not_newer_than
        integer(c_int64_t), intent(out) :: version
        integer(c_int) :: rc
        rc = c_find(session%ptr, c_text(name), not_newer_than, version)
    end function

    function cairn_find_version(session, name, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_find_version(session%ptr, c_text(name), version)
    end function

    function cairn_verify(session, name, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_verify(session%ptr, c_text(name), version)
    end function

    function cairn_reject(session, name, version, reason) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name, reason
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_reject(session%ptr, c_text(name), version, c_text(reason))
    end function

    ! Restores from the shard of old_rank if present, else of this rank.
    function cairn_restore(session, name, version, regions, old_rank) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        character(*), intent(in), optional :: regions(:)
        integer, intent(in), optional :: old_rank
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc

        if (present(old_rank)) then
            rc = c_restore_from(session%ptr, c_text(name), version, int(old_rank, c_int), &
                                c_names(regions, texts, list))
        else
            rc = c_restore(session%ptr, c_text(name), version, c_names(regions, texts, list))
        end if
    end function

    function cairn_restart(session, name, version, regions) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(out) :: version
        character(*), intent(in), optional :: regions(:)
        character(PATH_SIZE, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc
        rc = c_restart(session%ptr, c_text(name), c_names(regions, texts, list), version)
    end function

    function cairn_version_info(session, name, version, info) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        type(cairn_version_info_t), intent(out) :: info
        integer(c_int) :: rc
        info%size = c_sizeof(info)
        rc = c_version_info(session%ptr, c_text(name), version, info)
    end function

    ! Type and extents of a stored region, for allocating memory before protecting it.
    function cairn_region_info(session, name, version, old_rank, region, type, dims) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name, region
        integer(c_int64_t), intent(in) :: version
        integer, intent(in) :: old_rank
        integer(c_int), intent(out) :: type
        integer(c_int64_t), allocatable, intent(out) :: dims(:)
        type(array_t) :: a
        integer(c_int) :: rc

        a = array_t(c_sizeof(a), 0, 0, 0, 0, 0)
        rc = c_region_info(session%ptr, c_text(name), version, int(old_rank, c_int), &
                           c_text(region), a)
        type = a%type
        dims = a%dims(a%ndims:1:-1)
    end function

    ! Name, type and extents of a stored region; index counts from 0. CAIRN_ENOENT after the last one.
    function cairn_region_at(session, name, version, old_rank, index, region, type, dims) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer, intent(in) :: old_rank, index
        character(:), allocatable, intent(out) :: region
        integer(c_int), intent(out) :: type
        integer(c_int64_t), allocatable, intent(out) :: dims(:)
        character(PATH_SIZE, kind=c_char) :: c
        type(array_t) :: a
        integer(c_int) :: rc

        a = array_t(c_sizeof(a), 0, 0, 0, 0, 0)
        c = c_null_char
        rc = c_region_at(session%ptr, c_text(name), version, int(old_rank, c_int), &
                         int(index, c_int32_t), c, len(c, c_size_t), a)
        region = f_text(c)
        type = a%type
        dims = a%dims(a%ndims:1:-1)
    end function

    ! The committed versions of a name, newest first.
    function cairn_list(session, name, versions) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), allocatable, intent(out) :: versions(:)
        integer(c_int64_t), allocatable, target :: all(:)
        integer(c_size_t) :: n
        integer(c_int) :: rc

        n = 0
        rc = c_list(session%ptr, c_text(name), c_null_ptr, 0_c_size_t, n)
        allocate (all(n))
        if (rc == CAIRN_OK .and. n > 0) &
            rc = c_list(session%ptr, c_text(name), c_loc(all), size(all, kind=c_size_t), n)
        versions = all(:min(n, size(all, kind=c_size_t)))
    end function

    function cairn_remove(session, name, version) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: version
        integer(c_int) :: rc
        rc = c_remove(session%ptr, c_text(name), version)
    end function

    function cairn_drop_local(session, name) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        integer(c_int) :: rc
        rc = c_drop_local(session%ptr, c_text(name))
    end function

    ! Files. --------------------------------------------------------------------------------------

    function cairn_file_route(session, name, version, file, path) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name, file
        integer(c_int64_t), intent(in) :: version
        character(:), allocatable, intent(out) :: path
        character(PATH_SIZE, kind=c_char) :: c
        integer(c_int) :: rc
        c = c_null_char
        rc = c_file_route(session%ptr, c_text(name), version, c_text(file), c, len(c, c_size_t))
        path = f_text(c)
    end function

    function cairn_file_restore(session, name, version, old_rank, file, path) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name, file
        integer(c_int64_t), intent(in) :: version
        integer, intent(in) :: old_rank
        character(:), allocatable, intent(out) :: path
        character(PATH_SIZE, kind=c_char) :: c
        integer(c_int) :: rc
        c = c_null_char
        rc = c_file_restore(session%ptr, c_text(name), version, int(old_rank, c_int), &
                            c_text(file), c, len(c, c_size_t))
        path = f_text(c)
    end function

    ! Advice. -------------------------------------------------------------------------------------

    function cairn_should_checkpoint(session, name, yes) result(rc)
        type(cairn_session), intent(in) :: session
        character(*), intent(in) :: name
        logical, intent(out) :: yes
        integer(c_int) :: rc, answer
        answer = 0
        rc = c_should_checkpoint(session%ptr, c_text(name), answer)
        yes = answer /= 0
    end function

    function cairn_should_stop(session, yes) result(rc)
        type(cairn_session), intent(in) :: session
        logical, intent(out) :: yes
        integer(c_int) :: rc, answer
        answer = 0
        rc = c_should_stop(session%ptr, answer)
        yes = answer /= 0
    end function

    ! How many versions were restored although one copy was damaged; -1: no session.
    function cairn_repairs(session) result(n)
        type(cairn_session), intent(in) :: session
        integer(c_int) :: n
        n = c_repairs(session%ptr)
    end function

    ! Phases: hints for the background. -----------------------------------------------------------

    function cairn_phase(session, phase) result(rc)
        type(cairn_session), intent(in) :: session
        integer(c_int), intent(in) :: phase
        integer(c_int) :: rc
        rc = c_phase(session%ptr, phase)
    end function
end module
