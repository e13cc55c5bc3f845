"""The Apptainer of the tests and its image, which `scripts/apptainer.sh` makes and keeps."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).parents[2]
# The status of scripts that did not fail but cannot work on this machine.
CANNOT = 3
BUILD_TIMEOUT = 900


class Unavailable(Exception):
    """No Apptainer on this machine, and why."""


@dataclass(frozen=True)
class Apptainer:
    """`programs` is the folder to put on the PATH; `image` has this project's wheel and NumPy."""

    programs: Path
    image: Path

    def exec(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line that runs a command in the image."""
        program = str(self.programs / "singularity")
        return [program, "exec", *options, str(self.image), *command]

    def as_one_file(self) -> Apptainer:
        """The same image in Apptainer's own format, as users have it; takes a minute to make."""
        return Apptainer(self.programs, Path(_script("sif")))


def prepare() -> Apptainer:
    """Makes both, for minutes on a new machine and at once on the next time."""
    return Apptainer(Path(_script("program")), Path(_script("image")))


def _script(what: str) -> str:
    done = subprocess.run(
        [TREE / "scripts/apptainer.sh", what],
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
    )
    if done.returncode == CANNOT:
        raise Unavailable(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
