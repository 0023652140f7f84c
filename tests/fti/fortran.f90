! SPDX-License-Identifier: BSD-3-Clause
! FTI's Fortran module: arrays of several ranks and types, a restart in the same process.
! usage: fortran CONFIGURATION
program fti_fortran
    use mpi
    use FTI
    use, intrinsic :: iso_c_binding
    implicit none
    integer, target :: step
    real(c_double), pointer :: grid(:, :)
    complex(c_float_complex), target :: wave(50)
    integer(c_int64_t), target :: counts(2, 3, 4)
    integer(c_int64_t) :: bytes
    integer :: comm, rank, err, i, status
    character(300) :: conf

    call get_command_argument(1, conf)
    call MPI_Init(err)
    comm = MPI_COMM_WORLD
    call FTI_Init(conf, comm, err)
    call need(err == FTI_SCES, 'FTI_Init')
    call MPI_Comm_rank(comm, rank, err)
    call FTI_Status(status)
    call need(status == 0, 'FTI_Status')
    allocate (grid(30, 20))
    call protect_all()
    step = 12
    grid = reshape([(real(i + rank, c_double), i=1, 600)], [30, 20])
    wave = [(cmplx(i, -rank), i=1, 50)]
    counts = 5 + rank
    call FTI_SetAttribute(2, 'grid', FTI_ATTRIBUTE_NAME, err)
    call need(err == FTI_SCES, 'FTI_SetAttribute')
    call FTI_Checkpoint(1, 4, err)
    call need(err == FTI_DONE, 'FTI_Checkpoint')
    step = 0
    grid = 0
    wave = 0
    counts = 0

    comm = MPI_COMM_WORLD
    call FTI_Init(conf, comm, err)
    call FTI_Status(status)
    call need(err == FTI_SCES .and. status == 1, 'the second FTI_Init')
    call FTI_GetStoredSize(2, bytes)
    call need(bytes == 4800, 'FTI_GetStoredSize')
    call FTI_getIDFromString('grid', i)
    call need(i == 2, 'FTI_getIDFromString')
    call protect_all()
    call FTI_Recover(err)
    call need(err == FTI_SCES .and. step == 12, 'FTI_Recover')
    call need(all(grid == reshape([(real(i + rank, c_double), i=1, 600)], [30, 20])), 'grid of rank')
    call need(all(wave == [(cmplx(i, -rank), i=1, 50)]) .and. all(counts == 5 + rank), 'the rest')
    call FTI_Finalize(err)
    call need(err == FTI_SCES, 'FTI_Finalize')
    deallocate (grid)
    call MPI_Finalize(err)

contains

    subroutine protect_all()
        call FTI_Protect(1, step, err)
        call need(err == FTI_SCES, 'step')
        call FTI_Protect(2, grid, err)
        call need(err == FTI_SCES, 'protect grid')
        call FTI_Protect(3, wave, err)
        call need(err == FTI_SCES, 'wave')
        call FTI_Protect(4, counts, err)
        call need(err == FTI_SCES, 'counts')
    end subroutine

    subroutine need(is, what)
        logical, intent(in) :: is
        character(*), intent(in) :: what
        if (is) return
        print *, 'failed: ', what
        call MPI_Abort(MPI_COMM_WORLD, 1, err)
    end subroutine
end program
