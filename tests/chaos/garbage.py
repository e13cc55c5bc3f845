"""Strangers at the door: everything that a port open to a network has to bear.

Each attack connects to one listening socket and does something no rank would do. None knows the
job's key. Attacks that stay connected return their socket, to be closed when the job is over.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable

import traces

MAGIC = b"HVDR"
VERSION = 2
PROOF = 48
HELLO = 6 + PROOF
TIMEOUT = 1.0


def connect(listener: traces.Listener, timeout: float = TIMEOUT) -> socket.socket:
    if listener.port is not None:
        return socket.create_connection(("127.0.0.1", listener.port), timeout)
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(timeout)
    stream.connect(f"\0{listener.name}")
    return stream


def hello(chance: random.Random) -> bytes:
    purpose = chance.randrange(8)
    return MAGIC + bytes([VERSION, purpose]) + chance.randbytes(PROOF)


def send_noise(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(
        chance.randbytes(chance.choice([1, 5, HELLO - 1, HELLO, HELLO + 1, 4096, 200_000]))
    )


def send_half_a_hello(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(hello(chance)[: chance.randrange(1, HELLO)])


def prove_with_a_wrong_key(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(hello(chance))
    stream.recv(5 + PROOF, socket.MSG_WAITALL)
    stream.sendall(struct.pack("<I", 16) + chance.randbytes(16))
    stream.recv(1)


def prove_and_then_talk(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(hello(chance) + struct.pack("<I", 16) + chance.randbytes(2016))


def claim_another_version(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(MAGIC + bytes([chance.randrange(3, 256), 1]) + chance.randbytes(PROOF))


def speak_http(stream: socket.socket, chance: random.Random) -> None:
    path = chance.choice(["/", "/worker_addresses", "/" + "x" * 9000])
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def reset(stream: socket.socket, chance: random.Random) -> None:
    stream.sendall(hello(chance)[: chance.randrange(HELLO)])
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stay_silent(stream: socket.socket, chance: random.Random) -> None:
    pass


Attack = Callable[[socket.socket, random.Random], None]

ATTACKS: list[Attack] = [
    send_noise,
    send_half_a_hello,
    prove_with_a_wrong_key,
    prove_and_then_talk,
    claim_another_version,
    speak_http,
    reset,
    stay_silent,
]


class Siege:
    """Attacks every port of a job from a thread, from before the ports exist until it is lifted."""

    def __init__(self, mark: str, seed: int) -> None:
        self._mark = mark
        self._chance = random.Random(seed)
        self._lifted = threading.Event()
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._attack_all)
        self.attacks = 0
        self.doors: set[int] = set()
        self._thread.start()

    def _attack_all(self) -> None:
        # Ports open and close while the job starts, and nothing announces them.
        while not self._lifted.wait(0.01):
            for listener in traces.listeners_of(self._mark):
                first = listener.inode not in self.doors
                self.doors.add(listener.inode)
                for attack in ATTACKS if first else [self._chance.choice(ATTACKS)]:
                    self._attack(attack, listener)
            if len(self._held) > 300:
                self._close()

    def _attack(self, attack: Attack, listener: traces.Listener) -> None:
        with contextlib.suppress(OSError):
            stream = connect(listener)
            self.attacks += 1
            keep = attack is stay_silent or self._chance.random() < 0.2
            try:
                attack(stream, self._chance)
            finally:
                if keep:
                    self._held.append(stream)
                else:
                    stream.close()

    def _close(self) -> None:
        for stream in self._held:
            stream.close()
        self._held.clear()

    def lift(self) -> None:
        self._lifted.set()
        self._thread.join()
        self._close()
