"""`horovodrun --container` with a real Apptainer: agents outside, ranks in the image."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from apptainer import Apptainer
from cluster import Cluster
from jobs import HOROVODRUN, Command, Ended
from left_over import left_over
from ranks import PROGRAM, place, reports
from slurm import Slurm

ENDLESS = str(Path(__file__).with_name("endless.py"))
TREE = Path(__file__).parents[2]
TWO_HOSTS = {"f1": 2, "f2": 2}
END = 15.0


def start(hosts: Cluster, apptainer: Apptainer, *arguments: str, **options) -> Command:
    """Starts a job with its ranks in the image, from the folder of this tree."""
    command = (HOROVODRUN, "--container", str(apptainer.image), *arguments)
    return Command(hosts["f1"], *command, cwd=str(TREE), **options)


def done(job: Command) -> Ended:
    ended = job.finish(60)
    assert ended.code == 0, ended.output + ended.errors
    return ended


@pytest.mark.parametrize("more", ["", "--cleanenv", "--contain --ipc", "--hostname inside"])
def test_ranks_on_two_hosts(hosts: Cluster, apptainer: Apptainer, more: str) -> None:
    """Whatever is hidden, a rank has its variables, the job's key and the working directory."""
    arguments = [f"--container-args={more}"] if more else []
    job = start(hosts, apptainer, "-H", "f1:2,f2:2", *arguments, "python", PROGRAM)
    found = reports(done(job).output)
    if "hostname" in more:
        found = [{**report, "host": place(TWO_HOSTS)[report["rank"]]["host"]} for report in found]
    assert found == place(TWO_HOSTS)
    assert left_over(hosts, END) == []


def test_ranks_are_inside(hosts: Cluster, apptainer: Apptainer) -> None:
    job = start(hosts, apptainer, "-H", "f1:1,f2:1", "sh", "-c", "echo in $APPTAINER_CONTAINER")
    assert done(job).output.count(f"in {apptainer.image}") == 2


def test_in_a_slurm_job(slurm: Slurm, hosts: Cluster, apptainer: Apptainer) -> None:
    words = (HOROVODRUN, "--container", str(apptainer.image), "python", PROGRAM)
    # Slurm may have been started before Apptainer was there.
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    job = Command(
        *(slurm.nodes[0], "salloc", "--quiet", "-N2", "--ntasks-per-node=2", *words),
        env={**slurm.environment, "PATH": path},
        cwd=str(TREE),
    )
    assert reports(done(job).output) == place(TWO_HOSTS)
    assert left_over(hosts, END) == []


def running(job: Command, folder: Path, ranks: int) -> None:
    """Waits until all ranks reduce."""
    end = time.monotonic() + 40
    while not all((folder / f"ready.{rank}").exists() for rank in range(ranks)):
        assert job.process.poll() is None and time.monotonic() < end, job.output + job.errors
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_is_left(
    hosts: Cluster, apptainer: Apptainer, tmp_path: Path, number: int
) -> None:
    job = start(hosts, apptainer, "-H", "f1:2,f2:2", "python", ENDLESS, str(tmp_path))
    running(job, tmp_path, 4)
    os.kill(job.process.pid, number)
    assert job.finish(END).code != 0
    assert left_over(hosts, END) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        # Ranks in different containers of a host share its network, and so can share memory.
        ({}, "shared memory"),
        ({"HOROVOD_TRANSPORT": "tcp"}, "tcp because HOROVOD_TRANSPORT=tcp"),
    ],
)
def test_debug_says_which_transport_is_used(
    hosts: Cluster, apptainer: Apptainer, tmp_path: Path, setting: dict[str, str], said: str
) -> None:
    job = start(hosts, apptainer, "-H", "f1:2", "python", ENDLESS, str(tmp_path), env=setting)
    running(job, tmp_path, 2)
    shown = hosts["f1"].run([HOROVODRUN, "debug", str(job.process.pid)])
    assert shown.stdout.endswith(f"\ntransport: {said}\n"), shown.stdout + shown.stderr
    os.kill(job.process.pid, signal.SIGINT)
    job.finish(END)
    assert left_over(hosts, END) == []


def test_missing_image(hosts: Cluster, apptainer: Apptainer) -> None:
    command = (HOROVODRUN, "--container", "/no/such.sif", "-H", "f1:1,f2:1", "true")
    ended = Command(hosts["f1"], *command).finish()
    assert ended.code == 127
    assert "the image `/no/such.sif` does not exist; copy it there" in ended.words()


def test_missing_apptainer(hosts: Cluster, tmp_path: Path) -> None:
    (tmp_path / "image.sif").touch()
    command = (HOROVODRUN, "--container", "image.sif", "-np", "1", "true")
    ended = Command(hosts["f1"], "env", "PATH=/sbin", *command, cwd=str(tmp_path)).finish()
    assert ended.code == 127
    assert "neither `apptainer` nor `singularity` on its PATH" in ended.words(), ended.errors
