"""Elastic states and samplers of PyTorch: what every rank has after sync, restore and commit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: E402
from horovod.torch.elastic import ElasticSampler, TorchState, run, state  # noqa: E402

NUMBERS = list(range(21))


def new_model(number: float) -> Any:
    """A model all of whose parameters are one number, with buffers."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(number)
    return model


def new_state(**kwargs: Any) -> Any:
    model = new_model(hvd.rank() + 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1 * (hvd.rank() + 1), momentum=0.9)
    return TorchState(model, optimizer, **kwargs)


def step(state: Any) -> None:
    """One step of this rank alone."""
    state.optimizer.zero_grad()
    state.model(torch.ones(4, 3) * torch.arange(4.0)[:, None]).pow(2).sum().backward()
    state.optimizer.step()


def plain(state: Any) -> Any:
    """Everything that a state keeps, to be compared."""
    model = {name: value.tolist() for name, value in state.model.state_dict().items()}
    optimizer = state.optimizer.state_dict()
    moments = {
        number: each["momentum_buffer"].tolist() for number, each in optimizer["state"].items()
    }
    return model, moments, [group["lr"] for group in optimizer["param_groups"]]


def test_sync_makes_everything_rank_0s_every_time() -> None:
    state = new_state(epoch=hvd.rank(), batch=10 + hvd.rank())
    for round_ in range(2):
        if hvd.rank() == 0:
            step(state)  # the other ranks have no momentum in the first round
        expected = hvd.broadcast_object(plain(state))
        state.epoch += round_ * 5
        state.sync()
        assert plain(state) == expected
        assert (state.epoch, state.batch) == (round_ * 5, 10)
        state.epoch = state.epoch + hvd.rank()


def test_restore_and_commit() -> None:
    state = new_state(epoch=0)
    state.sync()
    step(state)
    state.epoch = 1
    state.commit()
    committed = plain(state)
    for _ in range(2):  # what is saved must not change while training goes on
        step(state)
        state.epoch = 2
        assert plain(state) != committed
        state.restore()
        assert plain(state) == committed and state.epoch == 1


def test_an_object_that_takes_anothers_place() -> None:
    state = new_state()
    assert state.model is not None and "model" not in state._saved_state
    state.model = new_model(5 + hvd.rank())
    with torch.no_grad():
        state.model[0].bias.fill_(0)
    state.restore()
    assert state.model[0].bias.tolist() == [5.0 + hvd.rank()] * 2
    state.sync()
    assert state.model[0].bias.tolist() == [5.0] * 2
    state.optimizer = None
    state.sync()
    assert state.optimizer is None


def test_any_name_and_several_models() -> None:
    state = TorchState(generator=new_model(hvd.rank()), critic=new_model(10 + hvd.rank()))
    assert state.model is None and state.optimizer is None
    state.model = new_model(20 + hvd.rank())
    state.sync()
    models = (state.generator, state.critic, state.model)
    assert [model[0].bias[0].item() for model in models] == [0, 10, 20]


def test_the_registry_can_be_replaced() -> None:
    class Counter:
        def __init__(self, number: int) -> None:
            self.number = number

        def state_dict(self) -> int:
            return self.number

        def load_state_dict(self, number: int) -> None:
            self.number = number

    class Handler(state.StateHandler):
        def sync(self) -> None:
            self.value.load_state_dict(hvd.broadcast_object(self.value.number))
            self.save()

    before = state.get_handler_registry()
    state.set_handler_registry([*before, (Counter, Handler)])
    try:
        made = TorchState(counter=Counter(3 + hvd.rank()))
    finally:
        state.set_handler_registry(before)
    made.sync()
    assert made.counter.number == 3
    made.counter.number = 9
    made.restore()
    assert made.counter.number == 3


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("processed", [0, 1, 2])
def test_the_sampler_shares_out_what_is_left(shuffle: bool, processed: int) -> None:
    sampler = ElasticSampler(NUMBERS, shuffle=shuffle, seed=3)
    seen: set[int] = set()
    for batch in range(processed):
        indices = sampler.get_indices(batch, 2)
        assert len(indices) == 2
        seen.update(*hvd.allgather_object(indices))
        sampler.record_batch(batch, 2)
    assert sampler.processed_num == processed * 2 * hvd.size() == len(seen)
    sampler.reset()
    left = max(0, len(NUMBERS) - sampler.processed_num)
    assert len(sampler) == len(list(sampler)) == -(-left // hvd.size())
    parts = hvd.allgather_object(list(sampler))
    padding = len(sampler) * hvd.size() - left
    everything = [number for part in parts for number in part]
    assert len(set(everything)) == left == len(everything) - padding
    assert seen.isdisjoint(everything) and seen | set(everything) == set(NUMBERS)


def test_epochs_of_a_sampler() -> None:
    sampler = ElasticSampler(NUMBERS)
    first = hvd.allgather_object(list(sampler))
    sampler.record_batch(0, 4)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 4 * hvd.size()}
    sampler.set_epoch(1)
    assert sampler.state_dict() == {"epoch": 1, "processed_num": 0}
    assert hvd.allgather_object(list(sampler)) != first
    sampler.load_state_dict({"epoch": 0, "processed_num": 0})
    assert hvd.allgather_object(list(sampler)) == first
    loader = torch.utils.data.DataLoader(NUMBERS, sampler=sampler, batch_size=4)
    assert sum(len(batch) for batch in loader) == len(sampler)


def test_a_sampler_with_little_or_nothing_left() -> None:
    sampler = ElasticSampler([7] if hvd.size() > 1 else [], shuffle=False)
    assert list(sampler) == ([0] if hvd.size() > 1 else [])
    sampler.record_batch(0, 1)
    sampler.reset()
    assert len(sampler) == 0 and list(sampler) == []


def test_a_sampler_in_a_state() -> None:
    state = TorchState(sampler=ElasticSampler(NUMBERS, shuffle=False))
    if hvd.rank() == 0:
        state.sampler.record_batch(0, 3)
    state.sync()
    assert state.sampler.state_dict() == {"epoch": 0, "processed_num": 3 * hvd.size()}
    assert state.sampler.indices[0] == 3 * hvd.size() + hvd.rank()
    state.sampler.record_batch(1, 1)
    state.on_reset()
    assert state.sampler.indices[0] == 4 * hvd.size() + hvd.rank()
    state.restore()
    assert state.sampler.indices[0] == 3 * hvd.size() + hvd.rank()


def test_run_joins_again_and_goes_on() -> None:
    state = new_state(epoch=hvd.rank())
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @run
    def train(state: Any, epochs: int) -> str:
        while state.epoch < epochs:
            step(state)
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


def test_a_lost_rank_in_a_job_that_is_not_elastic(several_ranks: None) -> None:
    state = new_state()

    @run
    def train(state: Any) -> None:
        if hvd.rank() == 1:
            hvd.shutdown()
        else:
            hvd.allreduce(torch.ones(3), name="gradient")

    if hvd.rank() == 1:
        train(state)
    else:
        with pytest.raises(HorovodInternalError, match="not started with elastic options"):
            train(state)
