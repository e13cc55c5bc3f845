"""Exceptions of Horovod. Must not import anything: the extension module raises them."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective operation failed, on this rank or on another one."""


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts changed; training goes on after the ranks have been assigned anew."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of this job changed")
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """The text for a framework whose version is not the one that Horovod was built for."""
    return f"horovod was built for {name} {version}, but {name} {installed_version} is installed"


class HorovodVersionMismatchError(ImportError):
    """A framework's version differs from the one that Horovod was built for."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
