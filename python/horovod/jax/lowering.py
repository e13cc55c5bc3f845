"""Collectives in compiled programs: calls of the handler in the extension module.

Each call takes the token of the call before it and gives one to the next, so that XLA runs the
calls of a program in the order in which they were written, on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import core
from jax.interpreters import mlir

from horovod.common.basics import before_leaving
from horovod.common.framework_ops import jax_handler
from horovod.jax import compatibility
from horovod.jax.collective import KINDS, Collective
from horovod.jax.pending import wait_for_programs

TARGET = "horovod_collective"
TOKEN = core.ShapedArray((1,), np.dtype(np.uint8))


class Program:
    """What is known of a program while it is translated: its last token, its number of calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self._block: Any = None
        self._token: Any = None

    @classmethod
    def of(cls, context: Any) -> Program:
        """The program that is being translated."""
        module = context.module_context
        # Lives as long as the translation, and is shared by all of its contexts.
        notes = module.cached_primitive_lowerings
        if cls not in notes:
            symbol = module.module.operation.attributes["sym_name"]
            notes[cls] = cls(mlir.ir.StringAttr(symbol).value)
        return notes[cls]

    def token(self) -> Any:
        """The last call's token; a new one in the body of a loop or a branch."""
        if self._token is not None and self._block == mlir.ir.InsertionPoint.current.block:
            return self._token
        return mlir.ir_constant(np.zeros(1, np.uint8))

    def keep(self, token: Any) -> None:
        """Has the next call wait for this one."""
        self._block, self._token = mlir.ir.InsertionPoint.current.block, token

    def engine_name(self, collective: Collective, count: int) -> str:
        """The name on which ranks agree: the one given, or the program's and the call's place."""
        group = "grouped_" if count > 1 else ""
        name = collective.name
        if name is None:
            name = f"{self.name}.{self.calls}"
            self.calls += 1
        return f"{group}{collective.kind}.{name}"


def _lower(context: Any, *arrays: Any, collective: Collective) -> list[Any]:
    _refuse_several_devices(context, collective)
    before_leaving(wait_for_programs)
    if collective.kind not in ("broadcast", "alltoall"):
        return _call(context, arrays, collective)
    results = []
    for place, array in enumerate(arrays):
        alone = context.replace(
            avals_in=[context.avals_in[place]], avals_out=[context.avals_out[place]]
        )
        results += _call(alone, [array], collective.member(place, len(arrays)))
    return results


def _call(context: Any, arrays: Sequence[Any], collective: Collective) -> list[Any]:
    """A call of the handler: of one array, or of several that are a group of the engine."""
    program = Program.of(context)
    call = compatibility.ffi_lowering(TARGET, has_side_effect=True)
    with_token = context.replace(
        avals_in=[*context.avals_in, TOKEN], avals_out=[*context.avals_out, TOKEN]
    )
    *results, token = call(
        with_token,
        *arrays,
        program.token(),
        kind=np.int64(KINDS[collective.kind]),
        name=program.engine_name(collective, len(arrays)),
        op=np.int64(collective.op),
        prescale=np.float64(collective.prescale),
        postscale=np.float64(collective.postscale),
        root=np.int64(collective.root),
        process_set=np.int64(collective.process_set_id),
    )
    program.keep(token)
    return results


def _refuse_several_devices(context: Any, collective: Collective) -> None:
    devices = compatibility.device_count(context.module_context.axis_context)
    if devices > 1:
        raise NotImplementedError(
            f"hvd.{collective.kind} in a program for {devices} devices of one process: each would "
            "call it. Call it outside of jit, where arrays that are spread over devices are "
            "reduced shard by shard, or give each process one device"
        )


def _refuse_platform(context: Any, *arrays: Any, collective: Collective) -> list[Any]:
    platforms = ", ".join(context.module_context.platforms)
    raise NotImplementedError(
        f"hvd.{collective.kind} in a program for {platforms}: this version of Horovod compiles "
        "collectives for the CPU only. Call it outside of jit, where arrays travel by way of the "
        "host's memory"
    )


def register(primitive: Any) -> None:
    """Tells JAX how to translate the primitive."""
    compatibility.register_target(TARGET, jax_handler())
    compatibility.register_lowering(primitive, _refuse_platform, None)
    compatibility.register_lowering(primitive, _lower, "cpu")
