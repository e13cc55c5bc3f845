"""Jobs over containers: by ssh on a Docker network and on the host's, and by agents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from docker_hosts import PORT, Container, Containers
from engine import TREE, Engine

WHERE = "bash -lc 'echo RANK:$OMPI_COMM_WORLD_RANK on $(hostname)'"
GPUS = "bash -lc 'echo RANK:$OMPI_COMM_WORLD_RANK on $(hostname); nvidia-smi -L'"
TRAIN = f"python {TREE}/examples/numpy/digits.py --epochs 4"


def places(output: str) -> dict[int, str]:
    """The host each rank says it is on."""
    return {int(rank): host for rank, host in re.findall(r"RANK:(\d+) on (\S+)", output)}


def processes(container: Container) -> list[str]:
    """What runs in a container beside its main process and this question."""
    listed = container.engine.run("top", container.name, "-o", "pid,args").stdout.splitlines()[1:]
    return [line for line in listed if "sshd" not in line and "sleep infinity" not in line]


def test_ranks_are_where_they_were_asked_to_be(containers: Containers) -> None:
    workers = [containers.worker(host) for host in ("node8", "node9")]
    master = containers.master("node7")
    done = master.run(f"horovodrun -np 4 -H node7:1,node8:2,node9:1 -p {PORT} {WHERE}")
    assert done.returncode == 0, done.stderr
    assert places(done.stdout) == {0: "node7", 1: "node8", 2: "node8", 3: "node9"}
    assert [processes(container) for container in (master, *workers)] == [[], [], []]


def test_gpu_line_without_gpus_fails_with_the_shells_words(containers: Containers) -> None:
    containers.worker("node8")
    done = containers.master("node7").run(f"horovodrun -np 2 -H node7:1,node8:1 -p {PORT} {GPUS}")
    assert done.returncode == 127
    assert "nvidia-smi: command not found" in done.stderr
    assert re.search(r"rank [01] on (node7|node8) exited with code 127", done.stderr)


def test_trains_on_four_containers(containers: Containers) -> None:
    for host in ("node8", "node9", "node10"):
        containers.worker(host)
    hosts = "localhost:1,node8:1,node9:1,node10:1"
    done = containers.master("node7").run(f"horovodrun -np 4 -H {hosts} -p {PORT} {TRAIN}")
    assert done.returncode == 0, done.stderr
    assert "4 ranks" in done.stdout
    assert "never seen in training" in done.stdout


def test_one_machine_two_ports(machines: dict[str, Engine], tmp_path: Path) -> None:
    """Two workers with the network, the addresses and the host name of one machine."""
    with Containers(machines["node7"], "horovod", tmp_path) as local:
        host = ("--network", "host")
        workers = {"first": 12351, "second": 12352}
        for name, port in workers.items():
            local.worker(name, port, options=host)
        master = local.master("master", options=host)
        config = "".join(
            f"Host {name}\\n HostName 127.0.0.1\\n Port {port}\\n" for name, port in workers.items()
        )
        master.run(f"printf '{config}' > /etc/ssh/ssh_config.d/workers.conf")
        done = master.run(f"horovodrun -np 2 -H first:1,second:1 {TRAIN}")
        assert done.returncode == 0, done.stderr
        assert "2 ranks" in done.stdout


def test_worker_that_dies_ends_the_job(containers: Containers) -> None:
    worker = containers.worker("node8")
    master = containers.master("node7")
    line = "bash -c 'echo up; [ $HOROVOD_RANK = 0 ] && exec sleep 100; kill -9 $$'"
    done = master.run(f"horovodrun -np 2 -H node7:1,node8:1 -p {PORT} {line}")
    assert done.returncode == 128 + 9
    assert "rank 1 on node8" in done.stderr
    assert processes(master) == processes(worker) == []


def new_token() -> str:
    horovodrun = Path(sys.executable).with_name("horovodrun")
    command = [str(horovodrun), "agent", "--new-token"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_agents_need_neither_sshd_nor_keys(containers: Containers) -> None:
    token = f"HOROVOD_AGENT_TOKEN={new_token()}"
    agents = {}
    for host in ("node8", "node9"):
        agents[host] = containers.start(host, "env", token, "horovodrun", "agent", "node7:12346")
    master = containers.master("node7")
    hosts = "node7:1,node8:1,node9:1"
    done = master.run(f"{token} horovodrun -np 3 -H {hosts} --agents 12346 {WHERE}")
    assert done.returncode == 0, done.stderr
    assert places(done.stdout) == {0: "node7", 1: "node8", 2: "node9"}


def test_agent_with_another_token_gets_no_work(containers: Containers) -> None:
    wrong, right = (f"HOROVOD_AGENT_TOKEN={new_token()}" for _ in range(2))
    containers.start("node8", "env", wrong, "horovodrun", "agent", "node7:12346")
    done = containers.master("node7").run(
        f"{right} horovodrun -np 2 -H node7:1,node8:1 --agents 12346 --start-timeout 5 {WHERE}"
    )
    assert done.returncode != 0
    assert "node8" in done.stderr
    assert places(done.stdout) == {}
