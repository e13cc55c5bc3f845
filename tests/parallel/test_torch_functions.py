"""Broadcast of optimizer state: every optimizer of PyTorch becomes equal to the root's."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "ASGD": {"lr": 0.1},
    "Adadelta": {"lr": 0.1},
    "Adagrad": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.5},
    "Rprop": {"lr": 0.1},
}


def plain(value: Any) -> Any:
    """State with tensors as lists, so that it can be compared and sent."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return (type(value).__name__, value)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.full((2, 3), float(hvd.rank() + 1))).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("steps_elsewhere", [0, 1], ids=["fresh", "used"])
@pytest.mark.parametrize("distributed", [False, True], ids=["plain", "distributed"])
def test_equal_to_the_root(name: str, steps_elsewhere: int, distributed: bool) -> None:
    root = hvd.size() - 1
    model = torch.nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    options = dict(OPTIMIZERS[name])
    options["lr"] = 0.1 * (hvd.rank() + 1)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    for _ in range(3 if hvd.rank() == root else steps_elsewhere):
        step(model, optimizer)
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    weights = model.weight.tolist()
    hvd.broadcast_optimizer_state(optimizer, root)
    states = hvd.allgather_object(plain(optimizer.state_dict()))
    assert all(state == states[root] for state in states)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * (root + 1))
    assert model.weight.tolist() == weights
    hvd.broadcast_parameters(model.state_dict(), root)
    step(model, optimizer)


def test_an_optimizer_that_has_not_run() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1), momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    assert model.weight.grad is None


def test_lbfgs_is_refused() -> None:
    optimizer = torch.optim.LBFGS(torch.nn.Linear(3, 2).parameters())
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(optimizer, 0)


def test_named_parameters_can_be_broadcast() -> None:
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 2)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    weights = hvd.allgather_object(model.weight.tolist())
    assert weights == [weights[0]] * hvd.size()
