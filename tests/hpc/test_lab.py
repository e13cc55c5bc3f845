"""The lab itself, without Horovod: launchers, hosts, Slurm and Apptainer are the real ones."""

from __future__ import annotations

import pytest
from apptainer import Apptainer
from cluster import Cluster
from launchers import LAUNCHERS, Launcher
from left_over import left_over
from slurm import Slurm

SLOTS = {"f1": 2, "f2": 2, "f3": 2, "f4": 2}
WHERE = [f"{host} {2 * index + slot}" for index, host in enumerate(SLOTS) for slot in (0, 1)]
# The pause is for Open MPI 5: its `prterun` may wait for ever for ranks that end while they start.
SHOW = [
    "sh",
    "-c",
    'echo "$(hostname) ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}"; sleep 0.5',
]


def test_mpirun_places_ranks_on_four_hosts(hosts: Cluster, launcher: Launcher) -> None:
    command = launcher.command(8, *SHOW, hosts=SLOTS)
    done = hosts["f1"].run(command, env=launcher.environment)
    assert sorted(done.stdout.splitlines()) == WHERE, done.stderr
    assert left_over(hosts, within=5) == []


def test_srun_places_ranks_on_four_nodes(slurm: Slurm, hosts: Cluster) -> None:
    done = slurm.run("srun", "--ntasks-per-node=2", "-N", "4", *SHOW)
    assert sorted(done.stdout.splitlines()) == WHERE, done.stderr
    assert slurm.drain()
    assert left_over(hosts, within=5) == []


def test_slurm_has_every_kind_of_wire_up(slurm: Slurm) -> None:
    assert slurm.kinds() == ["none", "pmi2", "pmix"]


@pytest.mark.parametrize(
    ("kind", "variable"), [("none", "SLURM_PROCID"), ("pmi2", "PMI_FD"), ("pmix", "PMIX_RANK")]
)
def test_srun_sets_the_variables_of_its_kind(slurm: Slurm, kind: str, variable: str) -> None:
    done = slurm.run("srun", f"--mpi={kind}", "-n", "1", "printenv", variable)
    assert done.returncode == 0 and done.stdout.strip().isdigit(), done.stderr


def test_image_has_another_open_mpi_than_the_host(hosts: Cluster, apptainer: Apptainer) -> None:
    host = hosts["f1"].run([LAUNCHERS["openmpi-4"].program, "--version"])
    image = hosts["f1"].run(apptainer.exec("mpirun", "--version"))
    assert ") 4." in host.stdout, host.stderr
    assert ") 5." in image.stdout, image.stderr


def test_cleanenv_hides_the_launcher(hosts: Cluster, apptainer: Apptainer) -> None:
    inside = apptainer.exec("printenv", "PMIX_RANK", options=("--cleanenv",))
    command = LAUNCHERS["openmpi-4"].command(2, *inside)
    done = hosts["f1"].run(command, env=LAUNCHERS["openmpi-4"].environment)
    assert done.returncode != 0 and done.stdout == "", done.stderr
