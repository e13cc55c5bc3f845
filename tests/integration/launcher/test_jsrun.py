"""`horovodrun --jsrun`: the command line and the rankfile, for programs that play an LSF with CSM.

There is none to be had for tests, so `jsrun` is a script that shows what it was given.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import mpi
import pytest

Run = Callable[..., "tuple[int, bytes, bytes]"]

ALLOCATION = """[ "$*" = "-a 7" ] && cat <<'END'
---
allocation_id: 7
isolated_cores: 1
compute_nodes:
 - localhost
END"""

NODE = """[ "$*" = "-n localhost" ] && cat <<'END'
---
Record_1:
  discovered_cores: 6
  discovered_sockets: 2
  discovered_gpus: 2
END"""

SHOW = """printf '<%s> ' "$@"; echo; [ "$1" != --erf_input ] || cat "$2"; exit 4"""

RANKFILE = """overlapping_rs: allow
cpu_index_using: logical

rank: 0: { hostname: localhost; cpu: {0-3} ; gpu: * ; mem: * }
rank: 1: { hostname: localhost; cpu: {4-7} ; gpu: * ; mem: * }
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    programs = mpi.programs(
        tmp_path / "bin",
        jsrun=SHOW,
        mpirun="echo 'mpirun (IBM Spectrum MPI) 10.3'",
        csm_allocation_query=ALLOCATION,
        csm_node_attributes_query=NODE,
        lscpu="echo 'Thread(s) per core:  2'",
    )
    (tmp_path / "tmp").mkdir()
    return {
        **programs,
        "LSB_JOBID": "1",
        "CSM_ALLOCATION_ID": "7",
        "TMPDIR": str(tmp_path / "tmp"),
    }


def test_a_rank_for_each_gpu_of_the_allocation(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    line = ["--jsrun", "--tcp", "--mpi-args=-x A", "train", "a b"]
    code, output, errors = run(*line, environment=environment)
    shown, rankfile = output.decode().split("\n", 1)
    assert code == 4
    assert shown.startswith(f"<--erf_input> <{tmp_path}/tmp/")
    assert shown.endswith("> <--smpiargs> <-tcp -x A> <train> <a b> ")
    assert rankfile == RANKFILE
    assert b"the job failed: jsrun exited with code 4" in errors
    assert not list((tmp_path / "tmp").iterdir()), "the rankfile is gone"


def test_a_dry_run_can_be_typed(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    code, output, errors = run("--jsrun", "--dry-run", "train", environment=environment)
    assert (code, errors) == (0, b"")
    typed = subprocess.run(
        ["sh", "-c", output.decode()],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert typed.stdout == "<--erf_input> <horovod.rankfile> <train> \n" + RANKFILE


def test_a_binding_needs_nothing_of_the_allocation(run: Run, environment: dict[str, str]) -> None:
    del environment["CSM_ALLOCATION_ID"]
    _, _, errors = run("--jsrun", "-np", "2", "train", environment=environment)
    assert b"CSM_ALLOCATION_ID is not set; say how ranks are bound, e.g. `--binding" in errors
    line = ["--jsrun", "--binding-args=-n 2 -a 1 -c 7 -g 1", "train"]
    code, output, _ = run(*line, environment=environment)
    assert (code, output) == (4, b"<-n> <2> <-a> <1> <-c> <7> <-g> <1> <train> \n")


def test_more_slots_than_gpus_are_refused(run: Run, environment: dict[str, str]) -> None:
    code, _, errors = run("--jsrun", "-H", "localhost:3", "train", environment=environment)
    assert code == 2
    assert b"host `localhost` has 3 slots and 2 GPUs" in errors
    assert b"give it at most 2 slots" in errors
    assert run("--jsrun", "-H", "localhost:2", "train", environment=environment)[0] == 4


def test_outside_of_lsf_it_is_refused(run: Run, environment: dict[str, str]) -> None:
    del environment["LSB_JOBID"]
    code, _, errors = run("--jsrun", "-np", "2", "train", environment=environment)
    assert code == 2 and b"`--jsrun` works only inside an LSF job" in errors
