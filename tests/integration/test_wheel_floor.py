"""What the wheel asks of a machine: glibc 2.17 and no library beyond it, a small download, and an
installation that takes seconds."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

DIST = Path(__file__).parents[2] / "dist"

FLOOR = (2, 17)
LIMIT = 3_000_000
SECONDS = 10

# Parts of glibc, and the compiler's run-time library, which every Python has loaded or can load.
ALLOWED = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
}


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = list(DIST.glob("horovod-*.whl"))
    assert len(wheels) == 1, f"expected one wheel in {DIST}, found {wheels}; run `make wheel`"
    return wheels[0]


@pytest.fixture(scope="module")
def library(wheel: Path) -> ELFFile:
    """The only compiled file of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if ".so" in name)
        return ELFFile(io.BytesIO(archive.read(name)))


def test_auditwheel_finds_manylinux2014(wheel: Path) -> None:
    show = [sys.executable, "-m", "auditwheel", "show", wheel]
    seen = subprocess.run(show, check=True, capture_output=True, text=True, timeout=60).stdout
    text = " ".join(seen.split())
    assert 'consistent with the following platform tag: "manylinux_2_17_x86_64"' in text
    assert "manylinux2014_x86_64" in wheel.name


def test_no_symbol_is_newer_than_the_floor(library: ELFFile) -> None:
    section = library.get_section_by_name(".gnu.version_r")
    assert isinstance(section, GNUVerNeedSection)
    names = [version.name for _, versions in section.iter_versions() for version in versions]
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name) for name in names]
    needed = {(int(version[1]), int(version[2])) for version in versions if version}
    assert needed and max(needed) <= FLOOR, names
    assert all(name.startswith(("GLIBC_", "GCC_")) for name in names), names


def test_every_library_is_on_every_machine(library: ELFFile) -> None:
    section = library.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    needed = {tag.needed for tag in section.iter_tags("DT_NEEDED")}
    assert needed <= ALLOWED
    paths = [*section.iter_tags("DT_RPATH"), *section.iter_tags("DT_RUNPATH")]
    assert paths == [], "no path of the machine that built it"


def test_every_undefined_symbol_is_pythons_or_glibcs(library: ELFFile) -> None:
    """A name without a version is looked up when it is first called: it must be Python's."""
    symbols = list(library.get_section_by_name(".dynsym").iter_symbols())
    versions = library.get_section_by_name(".gnu.version")
    loose = [
        symbol.name
        for number, symbol in enumerate(symbols)
        if symbol["st_shndx"] == "SHN_UNDEF"
        and symbol["st_info"]["bind"] != "STB_WEAK"
        and versions.get_symbol(number)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
    ]
    assert [name for name in loose if name and not name.startswith(("Py", "_Py"))] == []


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= LIMIT


def test_nothing_is_in_it_twice_or_beside_its_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    assert {re.sub(r"-.*", "", name.partition("/")[0]) for name in names} == {"horovod"}


def test_installing_it_takes_seconds(wheel: Path, tmp_path: Path) -> None:
    """Without a compiler, a network or anything to wait for."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True, timeout=120)
    pip = [tmp_path / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel]
    started = time.monotonic()
    subprocess.run(pip, check=True, capture_output=True, env={"PATH": str(tmp_path / "bin")})
    assert time.monotonic() - started < SECONDS
