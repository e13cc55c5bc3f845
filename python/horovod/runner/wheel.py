"""Writes the installed Horovod out as a wheel, for hosts that have none: `horovodrun wheel`.

The files are those that the installation's RECORD lists, each checked against its hash; what the
installer added (scripts, byte code, its own metadata) stays behind. Equal installations give equal
wheels, byte for byte. Needs nothing but Python: no network, no `pip`.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

# Written by installers into `*.dist-info`, about their own work.
_INSTALLERS_NOTES = {
    "INSTALLER",
    "RECORD",
    "RECORD.jws",
    "RECORD.p7s",
    "REQUESTED",
    "direct_url.json",
    "provenance_url.json",
    "uv_build.json",
    "uv_cache.json",
}

# The earliest time that a zip file can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class WheelError(Exception):
    """The installation cannot be written out; the text says why and what to do."""


def write(directory: str) -> tuple[str, str]:
    """Writes the wheel into a directory, or to standard output for `-`.

    Returns:
        its path, and the line that installs it on another host; both empty for `-`.
    """
    files = _Files(_distribution())
    if directory == "-":
        sys.stdout.flush()
        files.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return "", ""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Complete or not there at all.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                files.write(file)
                file.flush()
                os.chmod(file.name, 0o644)
                os.replace(file.name, folder / files.wheel_name)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise WheelError(f"cannot write into `{directory}`: {error}") from error
    path = str(folder / files.wheel_name)
    return path, _line_to_type(path)


def for_another_host() -> list[str]:
    """How this host gives its wheel away, for a remedy that `horovodrun` prints.

    Returns:
        the path of the wheel that `pip` installed, if it is still there; else the name of the wheel
        and the program that writes it when called with `wheel -`; else nothing.
    """
    distribution = _distribution()
    kept = _kept_wheel(distribution)
    if kept is not None:
        return [kept]
    files = _Files(distribution)
    for _ in files.contents():
        pass
    return [files.wheel_name, _program(distribution)]


class _Files:
    """What the wheel of a distribution consists of."""

    def __init__(self, distribution: metadata.Distribution) -> None:
        self._distribution = distribution
        record = distribution.read_text("RECORD")
        if record is None:
            raise WheelError(
                f"{_where(distribution)} has no RECORD, the list of its files: no wheel was "
                f"installed there; {_REINSTALL}"
            )
        rows = {row[0]: row[1] for row in csv.reader(record.splitlines()) if len(row) == 3}
        self._info = next(
            (PurePosixPath(name).parts[0] for name in rows if name.endswith(".dist-info/WHEEL")), ""
        )
        self._hashes = {name: rows[name] for name in rows if self._is_of_the_wheel(name)}

    def _is_of_the_wheel(self, name: str) -> bool:
        path = PurePosixPath(name)
        if ".." in path.parts or path.is_absolute():
            # Horovod's wheel has nothing outside of the packages' directory: a script of `pip`'s.
            return False
        if "__pycache__" in path.parts or path.suffix == ".pyc":
            return False
        return not (path.parts[0] == self._info and path.name in _INSTALLERS_NOTES)

    @property
    def wheel_name(self) -> str:
        """The name that says which Pythons and machines it is for."""
        text = self._distribution.read_text("WHEEL") or ""
        tags = [line.split(":", 1)[1].strip() for line in text.splitlines() if line[:4] == "Tag:"]
        if not tags:
            raise WheelError(f"{_where(self._distribution)} names no platform; {_REINSTALL}")
        kinds = [".".join(dict.fromkeys(kind)) for kind in zip(*(tag.split("-") for tag in tags))]
        return "-".join([self._info.removesuffix(".dist-info"), *kinds]) + ".whl"

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Every file that the installer did not add, as it was installed."""
        # The package first, its description last, as the specification recommends.
        for name in sorted(self._hashes, key=lambda name: (name.startswith(self._info), name)):
            path = str(self._distribution.locate_file(name))
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise WheelError(f"cannot read `{path}`: {error}; {_REINSTALL}") from error
            if _hash(content) != self._hashes[name]:
                raise WheelError(f"`{path}` was changed since it was installed; {_REINSTALL}")
            yield name, content

    def write(self, file: IO[bytes]) -> None:
        """Writes the wheel; nothing of it if a file is not as it was installed."""
        packed = io.BytesIO()
        record = io.StringIO()
        rows = csv.writer(record, lineterminator="\n")
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in self.contents():
                rows.writerow((name, _hash(content), len(content)))
                _add(archive, name, content)
            rows.writerow((f"{self._info}/RECORD", "", ""))
            _add(archive, f"{self._info}/RECORD", record.getvalue().encode())
        file.write(packed.getbuffer())


_REINSTALL = (
    "install Horovod again from its wheel (`pip install --force-reinstall --no-deps FILE.whl`), or "
    "make one in a checkout with `make wheel`"
)


def _distribution() -> metadata.Distribution:
    """The installation that this very file belongs to."""
    # Not by name alone: a checkout on PYTHONPATH comes before what is installed.
    try:
        distribution = metadata.distribution("horovod")
    except metadata.PackageNotFoundError:
        raise WheelError(
            f"`{Path(__file__).parents[1]}` is not an installed package; in a checkout, `make "
            "wheel` makes a wheel"
        ) from None
    own = Path(os.path.realpath(__file__))
    is_own = Path(os.path.realpath(str(distribution.locate_file("horovod/runner/wheel.py")))) == own
    if not is_own or _direct_url(distribution).get("dir_info", {}).get("editable"):
        raise WheelError(
            f"`{own.parents[1]}` is a development install: its files belong to a checkout, where "
            "`make wheel` makes a wheel"
        )
    return distribution


def _direct_url(distribution: metadata.Distribution) -> dict[str, Any]:
    """What `pip` recorded about where the distribution came from."""
    return json.loads(distribution.read_text("direct_url.json") or "{}")


def _kept_wheel(distribution: metadata.Distribution) -> str | None:
    """The wheel that `pip` installed, if the file still exists and is unchanged."""
    direct_url = _direct_url(distribution)
    url = urlsplit(direct_url.get("url", ""))
    path = unquote(url.path)
    if url.scheme != "file" or not path.endswith(".whl") or not os.path.isfile(path):
        return None
    hashes = direct_url.get("archive_info", {}).get("hashes", {})
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    # The next build may have the same name.
    return path if hashes.get("sha256", digest) == digest else None


def _program(distribution: metadata.Distribution) -> str:
    """The `horovodrun` of this installation: its name if the PATH leads to it, else its path."""
    scripts = [file for file in distribution.files or () if file.name == "horovodrun"]
    if not scripts:
        raise WheelError(f"{_where(distribution)} has no `horovodrun`; {_REINSTALL}")
    path = os.path.normpath(str(distribution.locate_file(scripts[0])))
    found = shutil.which("horovodrun")
    is_same = found is not None and os.path.realpath(found) == os.path.realpath(path)
    return "horovodrun" if is_same else path


def _where(distribution: metadata.Distribution) -> str:
    return f"the installation in `{distribution.locate_file('')}`"


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3
    entry.external_attr = 0o100644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content, compresslevel=9)


def _line_to_type(path: str) -> str:
    name = os.path.basename(path)
    return f"scp {shlex.quote(path)} HOST: && ssh HOST python3 -m pip install ./{shlex.quote(name)}"
