"""Broadcast of optimizer state: every optimizer of PyTorch becomes equal to the root's."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

REFUSED = {"Optimizer", "LBFGS"}
SPARSE = {"SparseAdam"}
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "RMSprop": {"momentum": 0.5},
}
OPTIMIZERS = sorted(
    name
    for name, value in vars(torch.optim).items()
    if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
)
"""All that this version of PyTorch has."""


def plain(value: Any) -> Any:
    """State with tensors as lists, so that it can be compared and sent."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return (type(value).__name__, value)


def new_model(optimizer: str) -> torch.nn.Module:
    """A model with a frozen parameter, or one whose gradients are sparse."""
    if optimizer in SPARSE:
        return torch.nn.Embedding(3, 2, sparse=True)
    model = torch.nn.Linear(3, 2, bias=False)
    model.register_parameter("frozen", torch.nn.Parameter(torch.ones(2, 2), requires_grad=False))
    return model


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    if isinstance(model, torch.nn.Embedding):
        model(torch.tensor([0, hvd.rank() % 3])).sum().backward()
    else:
        model(torch.full((2, 3), float(hvd.rank() + 1))).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in REFUSED])
@pytest.mark.parametrize("steps_elsewhere", [0, 1], ids=["fresh", "used"])
@pytest.mark.parametrize("distributed", [False, True], ids=["plain", "distributed"])
def test_equal_to_the_root(name: str, steps_elsewhere: int, distributed: bool) -> None:
    root = hvd.size() - 1
    model = new_model(name)
    options = {**OPTIONS.get(name, {}), "lr": 0.1 * (hvd.rank() + 1)}
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


def test_an_optimizer_without_state_gets_gradients_of_zeros() -> None:
    model = torch.nn.ModuleDict(
        {"sparse": torch.nn.Embedding(4, 2, sparse=True), "dense": torch.nn.Linear(2, 1)}
    )
    model["dense"].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert model["dense"].weight.grad.tolist() == [[0.0, 0.0]]
    assert model["dense"].bias.grad is None
    assert model["sparse"].weight.grad.is_sparse
    assert not model["sparse"].weight.grad.to_dense().any()
    model["dense"].weight.grad.fill_(1.0)
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert model["dense"].weight.grad.tolist() == [[1.0, 1.0]]


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
