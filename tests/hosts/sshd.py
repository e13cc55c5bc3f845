"""The ssh server of a host: its keys, its options, and the ways in which it can be of no use."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

from namespaces import Namespace

PORT = 12345
PROGRAM = "/usr/sbin/sshd"
HOST_KEY = "/etc/ssh/host_key"

# `-o` options come first and win over these. The key exchange is the cheap one: the default of
# current versions, safe against quantum computers, is half of the time an ssh call takes.
CONFIGURATION = f"""\
HostKey {HOST_KEY}
PermitRootLogin yes
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PrintMotd no
PidFile none
MaxStartups 100
KexAlgorithms curve25519-sha256
"""


class Sshd:
    """`sshd` in a namespace. Stopping it leaves sessions alone, as on any machine."""

    def __init__(self, namespace: Namespace, user_key: str) -> None:
        self._namespace = namespace
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._write_files(user_key)
        self.new_host_key()

    def _write_files(self, user_key: str) -> None:
        home = os.path.expanduser("~root")
        self._namespace.do(
            "sh",
            lines=[
                # An empty folder, whatever this machine's own holds; no layer below shines through.
                f"rm -rf {home}/.ssh && mkdir -m 700 {home}/.ssh && mkdir -p /etc/ssh /run/sshd",
                "rm -rf /etc/ssh/ssh_config.d /etc/ssh/sshd_config.d",
                # A password field with `!` would lock the account for keys as well.
                "sed -i 's/^root:[^:]*:/root:*:/' /etc/shadow",
            ],
        )
        folder = self._namespace.path(f"{home}/.ssh")
        (folder / "id_ed25519").touch(0o600)
        (folder / "id_ed25519").write_text(user_key)
        public = self._namespace.do("ssh-keygen", "-y", "-f", f"{home}/.ssh/id_ed25519")
        (folder / "id_ed25519.pub").write_text(public)
        (folder / "authorized_keys").write_text(public)
        self._namespace.path("/etc/ssh/sshd_config").write_text(CONFIGURATION)

    def new_host_key(self) -> None:
        """Makes another host key, as a reinstalled machine has; counts from the next start."""
        self._namespace.do("rm", "-f", HOST_KEY, f"{HOST_KEY}.pub")
        self._namespace.do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", HOST_KEY)

    @property
    def pid(self) -> int | None:
        """The listener, if it runs."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return "".join(self._lines)

    def start(self, *options: str, port: int = PORT) -> None:
        """Starts it with options such as `"PubkeyAuthentication no"`; returns when it listens."""
        arguments = [part for option in options for part in ("-o", option)]
        self._process = subprocess.Popen(
            self._namespace.command([PROGRAM, "-D", "-e", "-p", str(port), *arguments]),
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        decided = threading.Event()
        threading.Thread(target=self._read, args=(self._process, decided), daemon=True).start()
        if not decided.wait(10) or self._process.poll() is not None:
            raise RuntimeError(f"host {self._namespace.name}: sshd does not start: {self.log}")

    def _read(self, process: subprocess.Popen[str], decided: threading.Event) -> None:
        """Keeps the log; `decided` is set once the server listens or has ended."""
        assert process.stderr
        with process.stderr as errors:
            for line in errors:
                self._lines.append(line)
                if "Server listening on" in line:
                    decided.set()
        process.wait()
        decided.set()

    def stop(self) -> None:
        """Connections are refused from now on."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Connections are accepted, and nothing answers."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a `pause`."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def running(self, *options: str, port: int = PORT) -> Iterator[None]:
        """Runs with other options or on another port for a while."""
        self.stop()
        self.start(*options, port=port)
        try:
            yield
        finally:
            self.stop()
            self.start()
