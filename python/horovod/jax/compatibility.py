"""What JAX calls by another name, or in another way, in some of its versions."""

from __future__ import annotations

import ctypes
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import jax
from jax.interpreters import mlir

# Older versions drop a collective whose result this rank does not use, and the others wait for it.
OLDEST = (0, 4, 38)
TESTED = "0.4.38 to 0.12.0"


def _require_version() -> None:
    if jax.__version_info__[:3] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"horovod.jax needs JAX {oldest} or newer, which keeps collectives in programs that do "
            f"not use their results; this is {jax.__version__}, and {TESTED} are tested"
        )


_require_version()


def _module(*names: str) -> Any:
    """The first of these modules that exists."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return importlib.import_module(names[-1])


ffi = _module("jax.ffi", "jax.extend.ffi")
_core = _module("jax.extend.core")
Primitive = getattr(_core, "Primitive", None) or _module("jax.core").Primitive

ffi_lowering = ffi.ffi_lowering

__all__ = [
    "Primitive",
    "device_count",
    "ffi_lowering",
    "register_lowering",
    "register_target",
]


def register_target(name: str, address: int) -> None:
    """Makes a function of C known to XLA."""
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    ffi.register_ffi_target(name, ffi.pycapsule(function), platform="cpu")


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: str | None) -> None:
    """Tells JAX how to translate a primitive, each time anew: two calls are never one."""
    options: dict[str, Any] = {"platform": platform}
    if "cacheable" in inspect.signature(mlir.register_lowering).parameters:
        options["cacheable"] = False
    mlir.register_lowering(primitive, rule, **options)


def device_count(axis_context: Any) -> int:
    """The number of devices that a program is for."""
    if getattr(axis_context, "num_devices", None) is not None:
        return axis_context.num_devices
    mesh = getattr(axis_context, "mesh", None)
    if mesh is not None:
        return mesh.size
    environment = getattr(axis_context, "axis_env", None)
    return environment.nreps if environment is not None else 1
