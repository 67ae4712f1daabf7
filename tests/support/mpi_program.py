"""A program of MPI's own in a few lines of Python: no mpi4py in the image."""

from __future__ import annotations

MPI_PROGRAM = """
    import ctypes, os, sys
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    def handle(name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
    mpi.MPI_Init(None, None)
    count = 100_000
    ones, total = (ctypes.c_double * count)(*[1.0] * count), (ctypes.c_double * count)()
    mpi.MPI_Allreduce(
        ones, total, count,
        handle("ompi_mpi_double"), handle("ompi_mpi_op_sum"), handle("ompi_mpi_comm_world"),
    )
    print("mpi sum", total[0], total[count - 1], "of", os.environ["RANK"], flush=True)
"""
"""Sums 100,000 numbers over all ranks, more than one message holds, and says so."""
FINALIZE = "    mpi.MPI_Finalize()\n"
WITH_FIVE = ('"libmpi.so.40"', '"/opt/venv/lib/libmpi.so.40"')
"""What to replace in it where Open MPI 5 comes from PyPI."""
