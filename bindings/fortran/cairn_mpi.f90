! SPDX-License-Identifier: BSD-3-Clause
! Sessions over an MPI communicator: cairn_mpi.h for Fortran. Link libcairn_mpi.
module cairn_mpi
    use, intrinsic :: iso_c_binding
    use cairn
    implicit none
    private
    public :: cairn_open_mpi

    interface
        function c_open_mpi(comm, options, session) bind(C, name="cairn_open_mpi_f") result(rc)
            import
            integer(c_int), value :: comm
            type(cairn_options_t), intent(in) :: options
            type(c_ptr), intent(out) :: session
            integer(c_int) :: rc
        end function
    end interface

contains

    ! comm is an integer handle: MPI_COMM_WORLD with "use mpi", comm%MPI_VAL with "use mpi_f08".
    function cairn_open_mpi(comm, session, config_file) result(rc)
        integer, intent(in) :: comm
        type(cairn_session), intent(out) :: session
        character(*), intent(in), optional :: config_file
        character(:, kind=c_char), allocatable, target :: file
        type(cairn_options_t) :: options
        integer(c_int) :: rc

        options = cairn_options_t(c_sizeof(options), c_null_ptr, c_null_ptr)
        if (present(config_file)) then
            file = trim(config_file)//c_null_char
            options%config_file = c_loc(file)
        end if
        rc = c_open_mpi(int(comm, c_int), options, session%ptr)
    end function
end module
