"""One line of progress on a terminal; not a byte of it in a log file."""

from __future__ import annotations

from cluster import Cluster
from jobs import HOROVODRUN, TIMEOUT

LINE = f"{HOROVODRUN} -np 2 -H hosta:1,hostb:1 -p 12345 echo done"

AT_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"
CLEARED = "\x1b[2K"


def test_a_terminal_shows_what_is_waited_for_and_keeps_nothing_of_it(cluster: Cluster) -> None:
    host = cluster["hosta"]
    # The server there answers late, so that there is something to wait for.
    cluster["hostb"].sshd.pause()
    late = host.popen(["sh", "-c", f"sleep 1; kill -CONT {cluster['hostb'].sshd.pid}"])
    environment = {"TERM": "xterm"}
    command = ["python3", "-c", AT_A_TERMINAL, *LINE.split()]
    shown = host.run(command, timeout=TIMEOUT, env=environment).stdout
    late.wait(TIMEOUT)
    assert "agents: waiting for hostb" in shown
    assert "done" in shown
    last_progress = shown.rindex("waiting for hostb")
    cleared = shown.index(CLEARED, last_progress)
    assert cleared < shown.index("done"), "the line is gone before the ranks speak"


def test_a_log_file_gets_nothing_of_it(cluster: Cluster) -> None:
    done = cluster["hosta"].run(LINE.split(), timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:done", "[1]<stdout>:done"]
