"""Makes wheels smaller: `recompress_wheel.py WHEEL...`.

Zopfli looks longer for the shortest deflate stream than zlib does, which saves about 3 % here; what
comes out is an ordinary wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED

from zopfli import ZipFile


def recompress(wheel: Path) -> None:
    """Replaces a wheel by a smaller one with the same content."""
    smaller = wheel.with_suffix(".tmp")
    with ZipFile(wheel) as old, ZipFile(smaller, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry))
    smaller.replace(wheel)


for name in sys.argv[1:]:
    recompress(Path(name))
