! SPDX-License-Identifier: BSD-3-Clause
! heat.c in Fortran: the same plate, the same blocks, the same numbers. Their checkpoints are the
! same too, so a run that was begun by one can be ended by the other.
!
!     mpirun -n 8 heat_f --size 1024 --steps 200 --every 20 --out field.f64
program heat
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit, real64
    use mpi
    use cairn
    use cairn_mpi
    implicit none

    character(*), parameter :: NAME = "heat", REGION = "temperature"

    ! Axis 1 is the column (fastest in memory), axis 2 the row.
    integer :: n = 1024
    integer(c_int64_t) :: steps = 200, every = 20, from, i
    character(4096) :: out = ""
    integer :: comm, rank, ranks, ierr, level, column
    integer :: places(2) = 0, first(2), extent(2), west, east, north, south
    real(real64), allocatable, target :: t(:, :), next(:, :)
    real(real64), allocatable :: edge_n(:), edge_s(:), edge_w(:), edge_e(:)
    type(cairn_session) :: session

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, ierr)
    call parse()
    call make_block()
    call check(cairn_open_mpi(comm, session), "open")
    from = restart()
    do i = from + 1, steps
        call step()
        if (every > 0) then
            if (mod(i, every) == 0) then
                call protect() ! t has moved
                call check(cairn_checkpoint(session, NAME, i), "checkpoint")
            end if
        end if
    end do
    if (out /= "") call write_field()
    call check(cairn_close(session), "close")
    deallocate (t, next, edge_n, edge_s, edge_w, edge_e)
    call MPI_Finalize(ierr)

contains

    subroutine die(what, why)
        character(*), intent(in) :: what, why
        write (error_unit, "(4a)") "heat: ", what, ": ", why
        call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
        stop 1
    end subroutine

    subroutine check(rc, what)
        integer(c_int), intent(in) :: rc
        character(*), intent(in) :: what
        if (rc /= CAIRN_OK) call die(what, cairn_last_error())
    end subroutine

    subroutine parse()
        character(4096) :: option, value
        integer :: k

        do k = 1, command_argument_count(), 2
            call get_command_argument(k, option)
            call get_command_argument(k + 1, value)
            select case (option)
            case ("--size")
                read (value, *) n
            case ("--steps")
                read (value, *) steps
            case ("--every")
                read (value, *) every
            case ("--out")
                out = value
            case default
                call die("usage", "heat_f [--size N] [--steps N] [--every N] [--out FILE]")
            end select
        end do
    end subroutine

    ! Where the block of the rank at this place begins and how far it reaches, along one axis. The
    ! ranks' grid counts rows first, as in C.
    subroutine cut(axis, place, begin, length)
        integer, intent(in) :: axis, place
        integer, intent(out) :: begin, length
        integer :: parts

        parts = places(3 - axis)
        begin = int(int(n, c_int64_t)*place/parts)
        length = int(int(n, c_int64_t)*(place + 1)/parts) - begin
    end subroutine

    subroutine make_block()
        integer :: place(2), axis, j

        call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
        call MPI_Dims_create(ranks, 2, places, ierr)
        if (maxval(places) > n) call die("--size", "there are more ranks than rows")
        call MPI_Cart_create(MPI_COMM_WORLD, 2, places, [.false., .false.], .false., comm, ierr)
        call MPI_Comm_rank(comm, rank, ierr)
        call MPI_Cart_coords(comm, rank, 2, place, ierr)
        call MPI_Cart_shift(comm, 0, 1, north, south, ierr)
        call MPI_Cart_shift(comm, 1, 1, west, east, ierr)
        do axis = 1, 2
            call cut(axis, place(3 - axis), first(axis), extent(axis))
        end do
        allocate (t(extent(1), extent(2)), next(extent(1), extent(2)), source=0.0_real64)
        allocate (edge_n(extent(1)), edge_s(extent(1)), source=0.0_real64)
        allocate (edge_w(extent(2)), edge_e(extent(2)), source=0.0_real64)
        call MPI_Type_vector(extent(2), 1, extent(1), MPI_DOUBLE_PRECISION, column, ierr)
        call MPI_Type_commit(column, ierr)
        if (north == MPI_PROC_NULL) &
            edge_n = [(100.0_real64 - 50.0_real64*(first(1) + j)/n, j=0, extent(1) - 1)]
    end subroutine

    subroutine step()
        real(real64) :: up, down, left, right
        integer :: row, col, w, h

        w = extent(1)
        h = extent(2)
        call MPI_Sendrecv(t(1, h), w, MPI_DOUBLE_PRECISION, south, 0, edge_n, w, &
                          MPI_DOUBLE_PRECISION, north, 0, comm, MPI_STATUS_IGNORE, ierr)
        call MPI_Sendrecv(t(1, 1), w, MPI_DOUBLE_PRECISION, north, 1, edge_s, w, &
                          MPI_DOUBLE_PRECISION, south, 1, comm, MPI_STATUS_IGNORE, ierr)
        call MPI_Sendrecv(t(w, 1), 1, column, east, 2, edge_w, h, &
                          MPI_DOUBLE_PRECISION, west, 2, comm, MPI_STATUS_IGNORE, ierr)
        call MPI_Sendrecv(t(1, 1), 1, column, west, 3, edge_e, h, &
                          MPI_DOUBLE_PRECISION, east, 3, comm, MPI_STATUS_IGNORE, ierr)
        do row = 1, h
            do col = 1, w
                up = edge_n(col)
                if (row > 1) up = t(col, row - 1)
                down = edge_s(col)
                if (row < h) down = t(col, row + 1)
                left = edge_w(row)
                if (col > 1) left = t(col - 1, row)
                right = edge_e(row)
                if (col < w) right = t(col + 1, row)
                next(col, row) = t(col, row) &
                    + 0.2_real64*(up + down + left + right - 4.0_real64*t(col, row))
            end do
        end do
        call swap()
    end subroutine

    subroutine swap()
        real(real64), allocatable :: old(:, :)

        call move_alloc(t, old)
        call move_alloc(next, t)
        call move_alloc(old, next)
    end subroutine

    ! Tells Cairn where the block lies, in memory and in the plate. Called again whenever it moved.
    subroutine protect()
        call check(cairn_protect_array(session, REGION, c_loc(t), CAIRN_F64, &
                                       int(extent, c_int64_t), [int(n, c_int64_t), &
                                       int(n, c_int64_t)], int(first, c_int64_t)), "protect")
    end subroutine

    function restart() result(at)
        integer(c_int64_t) :: at
        integer(c_int) :: rc

        call protect()
        rc = cairn_restart(session, NAME, at)
        if (rc == CAIRN_ENOENT) then
            at = 0
            if (rank == 0) print "(a, i0, a)", "starts at step 0 on ", ranks, " ranks"
            return
        end if
        call check(rc, "restart")
        if (rank == 0) print "(a, i0, a, i0, a)", "goes on at step ", at, " on ", ranks, " ranks"
    end function

    ! The first rank collects the blocks and writes them as one field.
    subroutine write_field()
        real(real64), allocatable :: field(:, :), part(:, :)
        integer :: r, axis, place(2), begin(2), length(2), request, unit

        call MPI_Isend(t, size(t), MPI_DOUBLE_PRECISION, 0, 4, comm, request, ierr)
        if (rank == 0) then
            allocate (field(n, n))
            do r = 0, ranks - 1
                call MPI_Cart_coords(comm, r, 2, place, ierr)
                do axis = 1, 2
                    call cut(axis, place(3 - axis), begin(axis), length(axis))
                end do
                allocate (part(length(1), length(2)))
                call MPI_Recv(part, size(part), MPI_DOUBLE_PRECISION, r, 4, comm, &
                              MPI_STATUS_IGNORE, ierr)
                field(begin(1) + 1:begin(1) + length(1), begin(2) + 1:begin(2) + length(2)) = part
                deallocate (part)
            end do
            open (newunit=unit, file=trim(out), access="stream", form="unformatted", &
                  status="replace")
            write (unit) field
            close (unit)
        end if
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    end subroutine
end program
