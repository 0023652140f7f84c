! SPDX-License-Identifier: BSD-3-Clause
! FTI's Fortran interface over Cairn's libfti: programs written for FTI's module compile with this
! file and link -lfti. Variables are scalars or arrays of any rank; they must be contiguous and, as
! FTI keeps their addresses, targets or pointers.
module FTI
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer, parameter, public :: FTI_DONE = 1, FTI_SCES = 0, FTI_HEAD = 2
    integer, parameter, public :: FTI_NSCS = -1, FTI_NREC = -2
    integer, parameter, public :: FTI_ATTRIBUTE_NAME = 1, FTI_ATTRIBUTE_DIM = 2
    ! Values of FTI_CHAR, FTI_INTG, FTI_LONG, FTI_SFLT, FTI_DBLE in libfti: a module would define
    ! variables of these names, not refer to them.
    integer(c_int), parameter :: char_id = 0, int_id = 2, long_id = 3, float_id = 8, double_id = 9

    type, public, bind(c) :: FTI_Type
        integer(c_int) :: id
    end type

    ! struct FTIT_attribute
    type, bind(c) :: attribute_t
        integer(c_int) :: ndims
        integer(c_int64_t) :: count(32)
        character(c_char) :: name(256)
    end type

    interface FTI_Protect
        module procedure protect_int32, protect_int64, protect_real32, protect_real64
        module procedure protect_char, protect_logical, protect_complex64, protect_complex128
        module procedure protect_ptr
    end interface

    interface FTI_SetAttribute
        module procedure set_name, set_dims
    end interface

    interface FTI_Realloc
        module procedure realloc_ptr
    end interface

    interface
        function init_f(file, comm) bind(c, name='fti_init_fortran_')
            import
            character(c_char), intent(in) :: file(*)
            integer, intent(inout) :: comm
            integer(c_int) :: init_f
        end function
        function protect_c(id, ptr, n, tid) bind(c, name='FTI_Protect')
            import
            integer(c_int), value :: id
            type(c_ptr), value :: ptr
            integer(c_int64_t), value :: n
            integer(c_int), value :: tid
            integer(c_int) :: protect_c
        end function
        function set_attribute_c(id, attribute, flag) bind(c, name='fti_set_attribute_fortran_')
            import
            integer(c_int), value :: id
            type(attribute_t), intent(in) :: attribute
            integer(c_int), value :: flag
            integer(c_int) :: set_attribute_c
        end function
        function init_type_c(id, bytes) bind(c, name='FTI_InitType')
            import
            integer(c_int), intent(out) :: id
            integer(c_int), value :: bytes
            integer(c_int) :: init_type_c
        end function
        function realloc_c(id, ptr) bind(c, name='FTI_Realloc')
            import
            integer(c_int), value :: id
            type(c_ptr), value :: ptr
            type(c_ptr) :: realloc_c
        end function
        function stored_size_c(id) bind(c, name='FTI_GetStoredSize')
            import
            integer(c_int), value :: id
            integer(c_int64_t) :: stored_size_c
        end function
        function status_c() bind(c, name='FTI_Status')
            import
            integer(c_int) :: status_c
        end function
        function checkpoint_c(id, level) bind(c, name='FTI_Checkpoint')
            import
            integer(c_int), value :: id, level
            integer(c_int) :: checkpoint_c
        end function
        function recover_c() bind(c, name='FTI_Recover')
            import
            integer(c_int) :: recover_c
        end function
        function recover_var_init_c() bind(c, name='FTI_RecoverVarInit')
            import
            integer(c_int) :: recover_var_init_c
        end function
        function recover_var_c(id) bind(c, name='FTI_RecoverVar')
            import
            integer(c_int), value :: id
            integer(c_int) :: recover_var_c
        end function
        function recover_var_finalize_c() bind(c, name='FTI_RecoverVarFinalize')
            import
            integer(c_int) :: recover_var_finalize_c
        end function
        function snapshot_c() bind(c, name='FTI_Snapshot')
            import
            integer(c_int) :: snapshot_c
        end function
        function finalize_c() bind(c, name='FTI_Finalize')
            import
            integer(c_int) :: finalize_c
        end function
        function init_icp_c(id, level, activate) bind(c, name='FTI_InitICP')
            import
            integer(c_int), value :: id, level
            logical(c_bool), value :: activate
            integer(c_int) :: init_icp_c
        end function
        function add_var_icp_c(id) bind(c, name='FTI_AddVarICP')
            import
            integer(c_int), value :: id
            integer(c_int) :: add_var_icp_c
        end function
        function finalize_icp_c() bind(c, name='FTI_FinalizeICP')
            import
            integer(c_int) :: finalize_icp_c
        end function
        function bit_flip_c(id) bind(c, name='FTI_BitFlip')
            import
            integer(c_int), value :: id
            integer(c_int) :: bit_flip_c
        end function
        function set_id_c(name) bind(c, name='FTI_setIDFromString')
            import
            character(c_char), intent(in) :: name(*)
            integer(c_int) :: set_id_c
        end function
        function get_id_c(name) bind(c, name='FTI_getIDFromString')
            import
            character(c_char), intent(in) :: name(*)
            integer(c_int) :: get_id_c
        end function
        function send_file_c(from, to) bind(c, name='FTI_SendFile')
            import
            character(c_char), intent(in) :: from(*), to(*)
            integer(c_int) :: send_file_c
        end function
        function stage_status_c(id) bind(c, name='FTI_GetStageStatus')
            import
            integer(c_int), value :: id
            integer(c_int) :: stage_status_c
        end function
        function stage_dir_c(dir, n) bind(c, name='FTI_GetStageDir')
            import
            character(c_char), intent(out) :: dir(*)
            integer(c_int), value :: n
            integer(c_int) :: stage_dir_c
        end function
    end interface

    public :: FTI_Init, FTI_Status, FTI_Finalize, FTI_InitType, FTI_Protect, FTI_SetAttribute
    public :: FTI_GetStoredSize, FTI_Realloc, FTI_Checkpoint, FTI_Snapshot, FTI_Recover
    public :: FTI_RecoverVarInit, FTI_RecoverVar, FTI_RecoverVarFinalize
    public :: FTI_InitICP, FTI_AddVarICP, FTI_FinalizeICP, FTI_BitFlip
    public :: FTI_setIDFromString, FTI_getIDFromString
    public :: FTI_SendFile, FTI_GetStageStatus, FTI_GetStageDir

contains

    function text(s) result(c)
        character(*), intent(in) :: s
        character(len_trim(s) + 1, c_char) :: c
        c = trim(s)//c_null_char
    end function

    ! comm becomes FTI_COMM_WORLD.
    subroutine FTI_Init(file, comm, err)
        character(*), intent(in) :: file
        integer, intent(inout) :: comm
        integer, intent(out) :: err
        err = init_f(text(file), comm)
    end subroutine

    subroutine FTI_Status(status)
        integer, intent(out) :: status
        status = status_c()
    end subroutine

    subroutine FTI_Finalize(err)
        integer, intent(out) :: err
        err = finalize_c()
    end subroutine

    subroutine FTI_InitType(t, bytes, err)
        type(FTI_Type), intent(out) :: t
        integer, intent(in) :: bytes
        integer, intent(out) :: err
        err = init_type_c(t%id, int(bytes, c_int))
    end subroutine

    subroutine protect_int32(id, data, err)
        integer, intent(in) :: id
        integer(c_int32_t), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), int_id)
    end subroutine

    subroutine protect_int64(id, data, err)
        integer, intent(in) :: id
        integer(c_int64_t), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), long_id)
    end subroutine

    subroutine protect_real32(id, data, err)
        integer, intent(in) :: id
        real(c_float), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), float_id)
    end subroutine

    subroutine protect_real64(id, data, err)
        integer, intent(in) :: id
        real(c_double), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), double_id)
    end subroutine

    ! A complex number is two real ones.
    subroutine protect_complex64(id, data, err)
        integer, intent(in) :: id
        complex(c_float_complex), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), 2 * int(product(shape(data)), c_int64_t), float_id)
    end subroutine

    subroutine protect_complex128(id, data, err)
        integer, intent(in) :: id
        complex(c_double_complex), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), 2 * int(product(shape(data)), c_int64_t), double_id)
    end subroutine

    subroutine protect_char(id, data, err)
        integer, intent(in) :: id
        character(c_char), intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), char_id)
    end subroutine

    subroutine protect_logical(id, data, err)
        integer, intent(in) :: id
        logical, intent(in), target :: data(..)
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), c_loc(data), int(product(shape(data)), c_int64_t), int_id)
    end subroutine

    ! Memory of a type of FTI_InitType, by its address.
    subroutine protect_ptr(id, data, n, t, err)
        integer, intent(in) :: id
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in) :: n
        type(FTI_Type), intent(in) :: t
        integer, intent(out) :: err
        err = protect_c(int(id, c_int), data, n, t%id)
    end subroutine

    subroutine set_name(id, name, flag, err)
        integer, intent(in) :: id, flag
        character(*), intent(in) :: name
        integer, intent(out) :: err
        type(attribute_t) :: a
        integer :: i
        a%ndims = 0
        a%count = 0
        a%name = c_null_char
        do i = 1, min(len_trim(name), 255)
            a%name(i) = name(i:i)
        end do
        err = set_attribute_c(int(id, c_int), a, int(flag, c_int))
    end subroutine

    subroutine set_dims(id, dims, flag, err)
        integer, intent(in) :: id, flag
        integer(c_int64_t), intent(in) :: dims(:)
        integer, intent(out) :: err
        type(attribute_t) :: a
        a%ndims = min(size(dims), 32)
        a%count = 0
        a%count(1:a%ndims) = dims(1:a%ndims)
        a%name = c_null_char
        err = set_attribute_c(int(id, c_int), a, int(flag, c_int))
    end subroutine

    subroutine FTI_GetStoredSize(id, bytes)
        integer, intent(in) :: id
        integer(c_int64_t), intent(out) :: bytes
        bytes = stored_size_c(int(id, c_int))
    end subroutine

    subroutine realloc_ptr(id, ptr, err)
        integer, intent(in) :: id
        type(c_ptr), intent(inout) :: ptr
        integer, intent(out) :: err
        ptr = realloc_c(int(id, c_int), ptr)
        err = merge(FTI_SCES, FTI_NSCS, c_associated(ptr))
    end subroutine

    subroutine FTI_Checkpoint(id, level, err)
        integer, intent(in) :: id, level
        integer, intent(out) :: err
        err = checkpoint_c(int(id, c_int), int(level, c_int))
    end subroutine

    subroutine FTI_Snapshot(err)
        integer, intent(out) :: err
        err = snapshot_c()
    end subroutine

    subroutine FTI_Recover(err)
        integer, intent(out) :: err
        err = recover_c()
    end subroutine

    subroutine FTI_RecoverVarInit(err)
        integer, intent(out) :: err
        err = recover_var_init_c()
    end subroutine

    subroutine FTI_RecoverVar(id, err)
        integer, intent(in) :: id
        integer, intent(out) :: err
        err = recover_var_c(int(id, c_int))
    end subroutine

    subroutine FTI_RecoverVarFinalize(err)
        integer, intent(out) :: err
        err = recover_var_finalize_c()
    end subroutine

    subroutine FTI_InitICP(id, level, activate, err)
        integer, intent(in) :: id, level
        logical, intent(in) :: activate
        integer, intent(out) :: err
        err = init_icp_c(int(id, c_int), int(level, c_int), logical(activate, c_bool))
    end subroutine

    subroutine FTI_AddVarICP(id, err)
        integer, intent(in) :: id
        integer, intent(out) :: err
        err = add_var_icp_c(int(id, c_int))
    end subroutine

    subroutine FTI_FinalizeICP(err)
        integer, intent(out) :: err
        err = finalize_icp_c()
    end subroutine

    subroutine FTI_BitFlip(id, err)
        integer, intent(in) :: id
        integer, intent(out) :: err
        err = bit_flip_c(int(id, c_int))
    end subroutine

    subroutine FTI_setIDFromString(name, id)
        character(*), intent(in) :: name
        integer, intent(out) :: id
        id = set_id_c(text(name))
    end subroutine

    subroutine FTI_getIDFromString(name, id)
        character(*), intent(in) :: name
        integer, intent(out) :: id
        id = get_id_c(text(name))
    end subroutine

    subroutine FTI_SendFile(from, to, id)
        character(*), intent(in) :: from, to
        integer, intent(out) :: id
        id = send_file_c(text(from), text(to))
    end subroutine

    subroutine FTI_GetStageStatus(id, status)
        integer, intent(in) :: id
        integer, intent(out) :: status
        status = stage_status_c(int(id, c_int))
    end subroutine

    subroutine FTI_GetStageDir(dir, err)
        character(*), intent(out) :: dir
        integer, intent(out) :: err
        character(c_char) :: c(len(dir) + 1)
        integer :: i
        c = c_null_char
        err = stage_dir_c(c, int(len(dir) + 1, c_int))
        dir = ''
        do i = 1, len(dir)
            if (c(i) == c_null_char) exit
            dir(i:i) = c(i)
        end do
    end subroutine

end module
