"""What this build can do, and which frameworks it finds. Upstream compiles one extension for each
framework and asks a forked child; here one extension serves them all, so looking is enough.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from horovod.common import not_yet


def mpi_built(verbose: bool = False) -> bool:
    """Whether this build can use MPI: always, the library is opened at run time."""
    return True


def gloo_built(verbose: bool = False) -> bool:
    """Whether this build has the native transport, which answers to this name."""
    return True


def nccl_built(verbose: bool = False) -> int:
    """Version code of NCCL, or 0 without NCCL."""
    return 0


def ddl_built(verbose: bool = False) -> bool:
    """Whether this build can use IBM DDL."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """Whether this build can use oneCCL."""
    return False


def cuda_built(verbose: bool = False) -> bool:
    """Whether this build can use CUDA."""
    return False


def rocm_built(verbose: bool = False) -> bool:
    """Whether this build can use ROCm."""
    return False


@functools.cache
def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether `horovod.<name>` exists and its framework is installed; neither is imported."""
    if ext_base_name in not_yet.INSTEAD:
        return False
    return _can_find(f"horovod.{ext_base_name}") and _can_find(ext_base_name)


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether operations on GPU tensors work; not in this version."""
    return False


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError if the extension module is missing from the installed package."""
    package = Path(__file__).parents[1]
    if not any(package.glob("_core.*.so")):
        raise ImportError(
            f"{ext_name} cannot be used: the extension module horovod._core is missing from "
            f"{package}; reinstall horovod"
        )


def _can_find(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
