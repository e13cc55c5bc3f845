"""Small functions without state that several packages need. Must not import `_core`."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from horovod.common.build import (
    ccl_built,
    check_extension,
    ddl_built,
    extension_available,
    gloo_built,
    gpu_available,
    mpi_built,
    nccl_built,
)
from horovod.common.compatibility import (
    EXTENSIONS,
    check_installed_version,
    get_average_backwards_compatibility_fun,
    get_ext_suffix,
    get_extension_full_path,
)
from horovod.common.compatibility import _cache as _cache
from horovod.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message

__all__ = [
    "EXTENSIONS",
    "Adasum",
    "Average",
    "HorovodVersionMismatchError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "ccl_built",
    "check_extension",
    "check_installed_version",
    "check_num_rank_power_of_2",
    "ddl_built",
    "env",
    "extension_available",
    "get_average_backwards_compatibility_fun",
    "get_ext_suffix",
    "get_extension_full_path",
    "get_version_mismatch_message",
    "gloo_built",
    "gpu_available",
    "handle_average_backwards_compatibility",
    "is_iterable",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "require_count",
    "require_int",
    "split_list",
]

Item = TypeVar("Item")

Average = 0
Sum = 1
Adasum = 2
Min = 3
Max = 4
Product = 5


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """Returns the reduction that the arguments `op` and `average` (deprecated) ask for."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("op and average cannot both be given; leave out average")
    warnings.warn(
        "the argument average is deprecated; use op=hvd.Average or op=hvd.Sum",
        DeprecationWarning,
        stacklevel=3,
    )
    return Average if average else Sum


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two."""
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def check_num_rank_power_of_2(num_rank: int) -> None:
    """Raises NotImplementedError if Adasum cannot work with so many ranks."""
    if not num_rank_is_power_2(num_rank):
        raise NotImplementedError(
            f"Adasum needs a number of ranks that is a power of two, not {num_rank}"
        )


def split_list(items: Sequence[Item], parts: int) -> list[list[Item]]:
    """Splits a list into consecutive parts; the first ones are longer if it does not divide."""
    shortest, longer = divmod(len(items), parts)
    result = []
    start = 0
    for part in range(parts):
        end = start + shortest + (part < longer)
        result.append(list(items[start:end]))
        start = end
    return result


def is_iterable(value: object) -> bool:
    """Whether `iter()` accepts a value."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(version: str, target: str) -> bool:
    """Compares versions by their first three numbers; `target` must look like `1.2.3`."""
    if not isinstance(version, str) or not isinstance(target, str):
        raise ValueError(f"versions are strings, not {version!r} and {target!r}")
    if re.fullmatch(r"\d+\.\d+\.\d+", target) is None:
        raise ValueError(f"the version to compare with must look like 1.2.3, not {target!r}")
    return _release(version) >= _release(target)


def _release(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, without suffixes such as `rc1` or `+cpu`."""
    match = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if match is None:
        raise ValueError(f"a version starts with a number, not like {version!r}")
    return tuple(int(number or 0) for number in match.groups())


@contextlib.contextmanager
def env(**variables: str | None) -> Iterator[None]:
    """Sets environment variables and restores them afterwards; None leaves a variable alone."""
    changes = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def require_int(value: Any, what: str) -> int:
    """Returns a value as an int, or raises ValueError naming what was expected."""
    try:
        return int(value.__index__())
    except AttributeError:
        raise ValueError(f"{what} must be an integer, not {value!r}") from None


def require_count(value: Any, what: str) -> int:
    """Returns a value as an int that fits 31 bits and is not negative, or raises ValueError."""
    count = require_int(value, what)
    if not 0 <= count < 2**31:
        raise ValueError(f"{what} must be from 0 to {2**31 - 1}, not {count}")
    return count
