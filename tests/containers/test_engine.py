"""The engine that the tests start for themselves, where they may."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from engine import CANNOT, TREE


@pytest.mark.parametrize("how", ["end of input", "SIGKILL"])
def test_own_engine_ends_with_its_owner(how: str) -> None:
    script = subprocess.Popen(
        [TREE / "scripts/engine.sh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert script.stdin and script.stdout and script.stderr
    address, _, process = script.stdout.readline().partition(" ")
    if not address:
        assert script.wait(timeout=10) == CANNOT
        pytest.skip(f"no engine of our own: {script.stderr.read().strip()}")
    engine = os.pidfd_open(int(process))
    if how == "SIGKILL":
        script.send_signal(signal.SIGKILL)
    else:
        script.stdin.close()
    assert select.select([engine], [], [], 30)[0], "the engine has outlived its script"
    script.wait(timeout=30)
    scratch = Path(address.removeprefix("unix://")).parent
    if how == "SIGKILL":
        shutil.rmtree(scratch)
    assert not scratch.exists()
