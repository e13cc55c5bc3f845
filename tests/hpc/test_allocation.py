"""`horovodrun` inside a Slurm job: hosts and slots from the job, agents by `srun`, no ssh.

An `ssh` that fails stands in front of the real one wherever none may be used.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import HOROVODRUN, Command, Ended, children
from left_over import left_over
from ranks import PROGRAM, PYTHON, place, reports
from slurm import Slurm

ENDLESS = str(Path(__file__).with_name("endless.py"))
TWO_NODES = ("-N2", "--ntasks-per-node=2")
TWO_HOSTS = {"f1": 2, "f2": 2}
END = 15.0


@pytest.fixture
def no_ssh(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine whose ssh does not work."""
    folder = tmp_path / "no-ssh"
    folder.mkdir()
    (folder / "ssh").write_text("#!/bin/sh\necho ssh was used >&2; exit 99\n")
    (folder / "ssh").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}:/usr/sbin:/sbin"}


def salloc(slurm: Slurm, *words: str, env: dict[str, str], **options) -> Command:
    """Starts a command in an allocation of its own, on the first node."""
    environment = {**slurm.environment, **env}
    return Command(slurm.nodes[0], "salloc", "--quiet", *words, env=environment, **options)


def done(job: Command) -> Ended:
    ended = job.finish(60)
    assert ended.code == 0, ended.output + ended.errors
    return ended


def test_neither_hosts_nor_processes_nor_ssh(
    slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str]
) -> None:
    command = (HOROVODRUN, "--verbose", PYTHON, PROGRAM)
    ended = done(salloc(slurm, "-N4", "--ntasks-per-node=2", *command, env=no_ssh))
    assert reports(ended.output) == place({host.name: 2 for host in hosts})
    assert "slots by SLURM_TASKS_PER_NODE; agents are started by srun" in ended.words()
    assert slurm.drain()
    assert left_over(hosts, END) == []


def test_in_a_batch_script(
    slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {HOROVODRUN} {PYTHON} {PROGRAM}\n")
    output = tmp_path / "output"
    job = ("sbatch", "--wait", "-N2", "--cpus-per-task=4", "--exclusive", f"--output={output}")
    ended = slurm.run(*job, str(script), env=no_ssh, timeout=90)
    assert ended.returncode == 0, output.read_text()
    # Nodes of 8 processors, 4 for each rank.
    assert reports(output.read_text()) == place(TWO_HOSTS)
    assert left_over(hosts, END) == []


def test_fewer_processes_take_the_first_slots(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    ended = done(salloc(slurm, *TWO_NODES, HOROVODRUN, "-np", "3", PYTHON, PROGRAM, env=no_ssh))
    assert reports(ended.output) == place({"f1": 2, "f2": 1})


def test_more_processes_name_the_allocation(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    ended = salloc(slurm, *TWO_NODES, HOROVODRUN, "-np", "9", "true", env=no_ssh).finish()
    assert ended.code == 2
    assert "9 processes do not fit: Slurm job" in ended.words()
    assert "has 4 slots in all, by SLURM_TASKS_PER_NODE" in ended.words()
    # What it says: fewer processes, more tasks, or slots of one's own.
    assert "lower `-np` to 4 or less, ask for more with `--ntasks-per-node=N`" in ended.words()
    done(salloc(slurm, *TWO_NODES, HOROVODRUN, "-np", "4", "true", env=no_ssh))
    more = ("-N2", "--ntasks-per-node=5")
    done(salloc(slurm, *more, HOROVODRUN, "-np", "9", "true", env=no_ssh))
    own = ("-H", "f1:5,f2:4")
    done(salloc(slurm, *TWO_NODES, HOROVODRUN, *own, "-np", "9", "true", env=no_ssh))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SLURM_JOB_NODELIST": "f[1-"}, "from SLURM_JOB_NODELIST (`f[1-`): it has a `[`"),
        ({"PE_HOSTFILE": "/dev/stdin", "SLURM_JOB_NODELIST": "f1"}, "PE_HOSTFILE (`/dev/stdin`)"),
        ({"LSB_JOBID": "5", "LSB_HOSTS": "f2", "SLURM_JOB_NODELIST": "f1"}, "and LSF job 5 give"),
    ],
)
def test_hosts_are_listed_where_the_job_does_not_say(
    slurm: Slurm, variables: dict[str, str], said: str
) -> None:
    job = {"SLURM_JOB_ID": "1", **variables}
    ended = Command(slurm.nodes[0], HOROVODRUN, "true", env=job).finish()
    assert ended.code == 2 and said in ended.words(), ended.errors
    assert "with `-H`, e.g. `-H node1:4,node2:4`" in ended.words()
    done(Command(slurm.nodes[0], HOROVODRUN, "-H", "f1:2", "true", env=job))


def test_driver_outside_of_the_allocation(
    slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str]
) -> None:
    """As from a login node: `horovodrun` runs on f1, and the job has f3 and f4."""
    nodes = ("--nodelist=f3,f4", *TWO_NODES)
    ended = done(salloc(slurm, *nodes, HOROVODRUN, PYTHON, PROGRAM, env=no_ssh))
    assert reports(ended.output) == place({"f3": 2, "f4": 2})


def test_doctor_checks_the_hosts_of_the_job(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    ended = done(salloc(slurm, *TWO_NODES, HOROVODRUN, "doctor", env=no_ssh))
    assert "f1" in ended.output and "f2" in ended.output, ended.output


def test_plan_shows_srun(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    ended = done(salloc(slurm, *TWO_NODES, HOROVODRUN, "--dry-run", "true", env=no_ssh))
    assert "agent: srun '--nodes=1' '--ntasks=1'" in ended.output
    assert "'--nodelist=f2' --overlap" in ended.output


def test_ssh_if_asked_for(slurm: Slurm) -> None:
    command = (HOROVODRUN, "--launcher", "ssh", "--verbose", PYTHON, PROGRAM)
    ended = done(salloc(slurm, *TWO_NODES, *command, env={}))
    assert reports(ended.output) == place(TWO_HOSTS)
    assert "agents are started by ssh" in ended.words()


def test_node_of_another_job(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    command = (HOROVODRUN, "--launcher", "srun", "-H", "f1:1,f4:1", "true")
    ended = salloc(slurm, *TWO_NODES, *command, env=no_ssh).finish()
    assert ended.code == 1
    assert "node `f4` is not one of this Slurm job" in ended.words(), ended.errors
    assert "add `--launcher ssh` for others" in ended.words(), ended.errors
    by_ssh = (HOROVODRUN, "--launcher", "ssh", "-H", "f1:1,f4:1", "true")
    done(salloc(slurm, *TWO_NODES, *by_ssh, env={}))


def test_missing_srun(slurm: Slurm, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.symlink_to("/usr/bin/ssh")
    command = ("env", f"PATH={tmp_path}", HOROVODRUN)
    ended = salloc(slurm, *TWO_NODES, *command, "/bin/true", env={}).finish()
    assert ended.code == 1
    assert "cannot start `srun` to reach host `f2`" in ended.words(), ended.errors
    assert "add `--launcher ssh`" in ended.words(), ended.errors
    done(salloc(slurm, *TWO_NODES, *command, "--launcher", "ssh", "/bin/true", env={}))


def test_started_by_a_step(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    ended = salloc(slurm, *TWO_NODES, "srun", HOROVODRUN, "true", env=no_ssh).finish()
    assert ended.code == 2
    assert "srun started horovodrun 4 times in Slurm job" in ended.words()
    assert "run `horovodrun python train.py` once, without srun" in ended.words()
    done(salloc(slurm, *TWO_NODES, HOROVODRUN, "true", env=no_ssh))


def test_allocation_that_ended(slurm: Slurm, no_ssh: dict[str, str]) -> None:
    job = {**no_ssh, "SLURM_JOB_ID": "999999", "SLURM_JOB_NODELIST": "f[1-2]"}
    ended = Command(slurm.nodes[0], HOROVODRUN, "true", env={**slurm.environment, **job}).finish()
    assert ended.code == 1
    assert "the Slurm job has ended, or its time is over" in ended.words(), ended.errors


def running(job: Command, folder: Path, ranks: int) -> None:
    """Waits until all ranks reduce."""
    end = time.monotonic() + 40
    while not all((folder / f"ready.{rank}").exists() for rank in range(ranks)):
        assert job.process.poll() is None and time.monotonic() < end, job.output + job.errors
        time.sleep(0.05)


def launcher_of(job: Command) -> int:
    """The `horovodrun` that the `salloc` has started."""
    (salloc_or_its_child,) = children(job.process.pid) or [job.process.pid]
    return salloc_or_its_child


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_launcher_killed(
    slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str], tmp_path: Path, number: int
) -> None:
    command = (HOROVODRUN, PYTHON, ENDLESS, str(tmp_path))
    job = salloc(slurm, *TWO_NODES, *command, env=no_ssh)
    running(job, tmp_path, 4)
    os.kill(launcher_of(job), number)
    job.finish(END)  # salloc takes the signal for success
    assert slurm.drain()
    assert left_over(hosts, END) == []


def test_rank_killed(slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str], tmp_path: Path) -> None:
    job = salloc(slurm, *TWO_NODES, HOROVODRUN, PYTHON, ENDLESS, str(tmp_path), env=no_ssh)
    running(job, tmp_path, 4)
    os.kill(int((tmp_path / "ready.3").read_text().split()[0]), signal.SIGKILL)
    ended = job.finish(END)
    assert ended.code == 128 + signal.SIGKILL
    assert "rank 3" in ended.words() and "f2" in ended.words(), ended.errors
    assert slurm.drain()
    assert left_over(hosts, END) == []


def test_job_cancelled(
    slurm: Slurm, hosts: Cluster, no_ssh: dict[str, str], tmp_path: Path
) -> None:
    job = salloc(slurm, *TWO_NODES, HOROVODRUN, PYTHON, ENDLESS, str(tmp_path), env=no_ssh)
    running(job, tmp_path, 4)
    slurm.run("scancel", "--user=root")
    assert job.finish(END).code != 0
    assert slurm.drain()
    assert left_over(hosts, END) == []
