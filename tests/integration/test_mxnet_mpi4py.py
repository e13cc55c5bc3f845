"""Programs that leave the initialization of MPI to Horovod find one world of all ranks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import sockeye_recipe

pytest.importorskip("mxnet")
pytest.importorskip("mpi4py")

SCRIPT = """
import mpi4py
mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI
import mxnet as mx
import horovod.mxnet as hvd

assert not MPI.Is_initialized()
hvd.init()
hvd.init()
assert MPI.Is_initialized()
world, rank = MPI.COMM_WORLD, hvd.rank()
assert (world.Get_rank(), world.Get_size()) == (world.rank, world.size) == (rank, 2)
assert world.bcast({"rank": rank}, root=1) == {"rank": 1}
assert world.allgather(rank) == [0, 1]
assert world.gather(rank, root=1) == ([0, 1] if rank == 1 else None)
assert world.scatter(["a", "b"] if rank == 0 else None) == "ab"[rank]
assert world.allreduce(rank + 1) == 3 and world.allreduce(rank, op=MPI.MAX) == 1
assert world.reduce(rank + 1) == (3 if rank == 0 else None)
world.barrier()
assert hvd.allreduce(mx.nd.ones((3,)), op=hvd.Sum).asnumpy().tolist() == [2, 2, 2]
try:
    world.Dup().Free()
    print(f"rank {rank}: MPI's own world", flush=True)
except NotImplementedError as error:
    print(f"rank {rank}: {error}", flush=True)
"""
ALONE = "COMM_WORLD.Dup needs ranks that MPI has started"


@pytest.mark.parametrize(
    ("launcher", "said"),
    [("horovodrun -np 2", ALONE), ("mpirun -np 2 --oversubscribe", "MPI's own world")],
    ids=["horovodrun", "mpirun"],
)
def test_the_world_is_the_jobs(tmp_path: Path, launcher: str, said: str) -> None:
    if launcher.startswith("mpirun") and not shutil.which("mpirun"):
        pytest.skip("not installed: `apt-get install openmpi-bin`")
    (tmp_path / "program.py").write_text(SCRIPT)
    done = sockeye_recipe.run(f"{launcher} {sys.executable} program.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(said in line for line in done.stdout.splitlines()) == 2, done.stdout


def test_an_mpi_that_the_program_initialized_stays_as_it_is(tmp_path: Path) -> None:
    script = "from mpi4py import MPI\nimport horovod.mxnet as hvd\nworld = MPI.COMM_WORLD\n"
    script += "hvd.init()\nassert MPI.COMM_WORLD is world\nprint('unchanged')\n"
    (tmp_path / "program.py").write_text(script)
    done = sockeye_recipe.run(f"horovodrun -np 2 {sys.executable} program.py", tmp_path)
    assert done.stdout.count("unchanged") == 2, done.stdout + done.stderr
