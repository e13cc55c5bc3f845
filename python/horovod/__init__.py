"""Horovod: distributed training over one process per device.

Importing this package costs nothing: the extension module and the frameworks are loaded by the
sub-packages that need them, so `horovodrun` starts quickly and works without any framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod.runner import run

    __version__: str

__all__ = ["__version__", "run"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from horovod import _core

        return _core.__version__
    if name == "run":
        from horovod.runner import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
