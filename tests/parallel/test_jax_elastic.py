"""Elastic states of JAX: what every rank has after sync, restore and commit."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import horovod.jax as hvd  # noqa: E402
from horovod.common.exceptions import HostsUpdatedInterrupt  # noqa: E402
from horovod.jax.elastic import JaxState, run  # noqa: E402


def new_state(**kwargs: Any) -> JaxState:
    rank = hvd.rank()
    params = {"w": jnp.ones(3) * rank, "key": jax.random.key(rank), "none": None}
    return JaxState(params=params, moments=np.ones(2) * rank, **kwargs)


@partial(jax.jit, donate_argnums=0)
def step(weights: Any) -> Any:
    """Uses up its argument."""
    return weights + 1


def plain(state: Any) -> Any:
    key = jax.random.key_data(state.params["key"]).tolist()
    return state.params["w"].tolist(), key, state.moments.tolist()


def test_sync_makes_everything_rank_0s_every_time() -> None:
    state = new_state(epoch=hvd.rank(), names=[f"{hvd.rank()}"])
    for round_ in range(2):
        state.params["w"] = step(state.params["w"])
        state.sync()
        assert plain(state) == ([1.0 + round_] * 3, [0, 0], [0, 0])
        assert (state.epoch, state.names) == (0, ["0"])
        state.epoch += hvd.rank()


def test_restore_and_commit() -> None:
    state = new_state(epoch=0)
    state.sync()
    state.params["w"] = step(state.params["w"])
    state.epoch = 1
    state.commit()
    committed = plain(state)
    for _ in range(2):  # what is saved must not change while training goes on
        state.params = {**state.params, "w": step(state.params["w"])}
        state.moments += 1
        state.epoch = 2
        assert plain(state) != committed
        state.restore()
        assert plain(state) == committed and state.epoch == 1


def test_an_attribute_that_becomes_a_tree() -> None:
    state = JaxState(cache=None)
    state.cache = [jnp.ones(2) * hvd.rank()]
    state.sync()
    assert state.cache[0].tolist() == [0, 0]
    state.cache = 3 + hvd.rank()
    state.sync()
    assert state.cache == 3


def test_run_joins_again_and_goes_on() -> None:
    state = new_state(epoch=hvd.rank())
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    reduce = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))

    @run
    def train(state: Any, epochs: int) -> str:
        while state.epoch < epochs:
            state.params["w"] = reduce(step(state.params["w"]))
            state.epoch += 1
            state.commit()
            if state.epoch == 2:
                state.epoch = 3
                raise HostsUpdatedInterrupt
        return "done"

    size = hvd.size()
    assert train(state, 5) == "done"
    assert state.epoch == 5 and resets == [size]
    assert hvd.allgather_object(plain(state)) == [plain(state)] * size


def test_a_failure_in_a_program_restores_and_goes_on(
    several_ranks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 leaves in the second epoch, and comes back; rank 0 is in a compiled program then."""
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    state = new_state(epoch=0)
    reduce = jax.jit(lambda it: hvd.allreduce(it, op=hvd.Sum))
    failures = []

    @run
    def train(state: Any) -> None:
        while state.epoch < 3:
            if state.epoch == 1 and not failures:
                failures.append(hvd.rank())
                if hvd.rank() == 1:
                    hvd.shutdown()
                    raise hvd.HorovodInternalError("rank 1 has left")
                state.params["w"] = state.params["w"] * 100
            state.params["w"] = reduce(state.params["w"] + 1)
            state.epoch += 1
            state.commit()

    train(state)
    number = 0.0
    for _ in range(3):
        number = (number + 1) * hvd.size()
    assert state.params["w"].tolist() == [number] * 3 and failures == [hvd.rank()]


def test_a_lost_rank_in_a_job_that_is_not_elastic(several_ranks: None) -> None:
    state = new_state()

    @run
    def train(state: Any) -> None:
        if hvd.rank() == 1:
            hvd.shutdown()
        else:
            jax.block_until_ready(jax.jit(hvd.allreduce)(jnp.ones(3)))

    if hvd.rank() == 1:
        train(state)
    else:
        with pytest.raises(hvd.HorovodInternalError, match="not started with elastic options"):
            train(state)
