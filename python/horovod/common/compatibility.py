"""Names of upstream Horovod's `horovod.common.util` that programs import, kept for compatibility.
Nothing in this project needs them, and new code should not use them.

`horovod.torch`, `horovod.tensorflow` and `horovod.runner` have a module of this name too. Programs
find the names in the modules in which upstream has them; `tests/single/upstream_names.py` lists
them all. Must not import `_core`.
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXTENSIONS = ["tensorflow", "torch", "mxnet"]
"""The frameworks for which upstream builds an extension module each."""

_cache = functools.cache


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[..., int]:
    """Returns the function that turns `op` and the deprecated `average` into a reduction.

    `reduce_ops` is not asked: the numbers of the reductions are the same everywhere.
    """
    from horovod.common.util import handle_average_backwards_compatibility

    return handle_average_backwards_compatibility


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Does nothing: one build serves all versions of a framework, so none can be the wrong one."""


def get_ext_suffix() -> str:
    """Returns how the file names of extension modules end."""
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Returns the file of the extension module, which is one for all frameworks."""
    package = Path(__file__).parents[1]
    return str(next(package.glob("_core.*.so"), package / "_core.abi3.so"))
