"""What JAX programs do wrong is said on every rank, and nothing hangs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax_modes import ProgramError, assert_same

import horovod.jax as hvd


@pytest.mark.usefixtures("several_ranks")
def test_traces_that_differ_in_their_order() -> None:
    short, long = jnp.ones(3), jnp.ones(4)

    def program(short: Any, long: Any) -> Any:
        order = (short, long) if hvd.rank() == 0 else (long, short)
        return [hvd.allreduce(array) for array in order]

    with pytest.raises(ProgramError, match=r"HorovodInternalError: .*shape.*rank 1"):
        jax.jit(program)(short, long)


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("what", ["shape", "type", "op"])
def test_ranks_that_do_not_agree(what: str) -> None:
    first = hvd.rank() == 0
    array = jnp.ones(3 if what == "shape" and first else 4)
    array = array.astype("int32" if what == "type" and first else "float32")
    op = hvd.Min if what == "op" and first else hvd.Sum
    with pytest.raises(ProgramError, match=r"HorovodInternalError: .*do not agree on the"):
        jax.jit(lambda it: hvd.allreduce(it, op=op, name=what))(array)


@pytest.mark.usefixtures("several_ranks")
def test_different_numbers_of_rows_in_a_program() -> None:
    with pytest.raises(ProgramError, match=r"different numbers of rows.*outside of jit"):
        jax.jit(hvd.allgather)(jnp.ones((hvd.rank() + 1, 2)))


def test_types_that_cannot_be_moved() -> None:
    with pytest.raises(ValueError, match="type not supported: complex64"):
        hvd.allreduce(jnp.ones(3, "complex64"))
    with pytest.raises((ValueError, ProgramError), match=r"complex64|element type 15"):
        jax.jit(hvd.allreduce)(jnp.ones(3, "complex64"))


def test_splits_in_a_program() -> None:
    splits = [1] * hvd.size()
    with pytest.raises(ValueError, match=r"call it outside of jit, or without splits"):
        jax.jit(lambda it: hvd.alltoall(it, splits)[0])(jnp.ones(hvd.size()))


def test_scalars_have_no_rows() -> None:
    for function in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises(ValueError, match="at least one dimension"):
            jax.jit(function)(jnp.float32(1))


def test_rows_that_cannot_be_divided() -> None:
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="not divisible by the"):
            jax.jit(hvd.alltoall)(jnp.ones(hvd.size() + 1))


def test_a_deleted_array() -> None:
    array = jnp.ones(3)
    array.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        hvd.allreduce(array)


def test_a_donated_array() -> None:
    program = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum), donate_argnums=0)
    array = jnp.ones(3)
    assert_same(program(array), [float(hvd.size())] * 3)
    assert array.is_deleted()
    with pytest.raises((RuntimeError, ValueError), match=r"deleted|donated"):
        program(array)


def test_an_unknown_root() -> None:
    with pytest.raises(ProgramError, match=r"root rank 99 is not in"):
        jax.jit(lambda it: hvd.broadcast(it, 99))(jnp.ones(3))


def test_a_program_outlives_a_shutdown() -> None:
    program = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))
    assert_same(program(jnp.ones(2)), [float(hvd.size())] * 2)
    hvd.barrier()
    hvd.shutdown()
    # The second run of a program is another path through JAX, which raises another exception.
    with pytest.raises((ProgramError, ValueError), match=r"HorovodInternalError: .*hvd.init"):
        program(jnp.ones(2))
    hvd.init()
    assert_same(program(jnp.ones(2)), [float(hvd.size())] * 2)
