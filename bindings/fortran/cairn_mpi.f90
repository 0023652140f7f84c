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
    function cairn_open_mpi(comm, session, config_file, settings) result(rc)
        integer, intent(in) :: comm
        type(cairn_session), intent(out) :: session
        character(*), intent(in), optional :: config_file, settings(:)
        character(:, kind=c_char), allocatable, target :: file
        character(4096, kind=c_char), allocatable, target :: texts(:)
        type(c_ptr), allocatable, target :: list(:)
        integer(c_int) :: rc
        rc = c_open_mpi(int(comm, c_int), cairn_c_options(file, texts, list, config_file, settings), &
                        session%ptr)
    end function
end module
