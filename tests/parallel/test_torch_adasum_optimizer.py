"""DistributedOptimizer with op=Adasum, against the formula applied to what each rank changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frameworks import even_and_odd
from test_adasum import adasum

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

STEPS = 3


@pytest.fixture(autouse=True)
def a_power_of_two_of_ranks() -> None:
    if hvd.size() not in (2, 4, 8):
        pytest.skip("Adasum needs a power of two of ranks, and several")


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def two_groups(model: torch.nn.Module, name: str, **options: Any) -> torch.optim.Optimizer:
    groups = [
        {"params": list(model[0].parameters()), "lr": 0.1},
        {"params": list(model[2].parameters()), "lr": 0.05},
    ]
    return getattr(torch.optim, name)(groups, **options)


def backward(model: torch.nn.Module, step: int, passes: int = 1) -> None:
    for part in range(passes):
        generator = torch.Generator().manual_seed(1000 * step + 100 * part + hvd.rank())
        model(torch.randn(4, 6, generator=generator)).square().mean().backward()


def follow_the_formula(model: torch.nn.Module, optimizer: Any, passes: int) -> None:
    """Trains with a plain optimizer, whose changes are replaced by the Adasum of all ranks'."""
    for step in range(STEPS):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        optimizer.zero_grad()
        backward(model, step, passes)
        optimizer.step()
        for parameter, start in zip(model.parameters(), before):
            change = (parameter.detach() - start).double().flatten().numpy()
            combined = adasum(hvd.allgather_object(change))
            reshaped = torch.from_numpy(np.asarray(combined)).float().reshape(start.shape)
            parameter.data = start + reshaped


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("Adam", {"foreach": False})],
)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16])
def test_formula(name: str, options: dict[str, Any], passes: int, compression: Any) -> None:
    model, expected = new_model(), new_model()
    optimizer = hvd.DistributedOptimizer(
        two_groups(model, name, **options),
        model.named_parameters(),
        op=hvd.Adasum,
        backward_passes_per_step=passes,
        compression=compression,
    )
    assert type(optimizer).__name__ == name
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, passes)
        optimizer.step()
    follow_the_formula(expected, two_groups(expected, name, **options), passes)
    tolerance = 1e-5 if compression is hvd.Compression.none else 1e-2
    for mine, formula in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(mine, formula, rtol=tolerance, atol=tolerance)


def test_parameters_stay_as_they_are_until_the_step() -> None:
    model = new_model()
    before = model[0].weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(two_groups(model, "SGD"), op=hvd.Adasum)
    backward(model, 0)
    assert torch.equal(model[0].weight, before)
    optimizer.synchronize()
    assert torch.equal(model[0].weight, before)
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    assert not torch.equal(model[0].weight, before)
    optimizer.zero_grad()
    assert len(optimizer.param_groups) == 2
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]


def test_a_closure_and_a_missing_gradient() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(two_groups(model, "SGD"), op=hvd.Adasum)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        part = model[0] if hvd.rank() == 0 else model
        loss = part(torch.ones(1, 6)).square().mean()
        loss.backward()
        return loss

    assert isinstance(optimizer.step(closure), torch.Tensor)
    weights = hvd.allgather_object([parameter.tolist() for parameter in model.parameters()])
    assert weights == [weights[0]] * hvd.size()


def test_a_scheduler_sees_every_step() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(two_groups(model, "SGD"), op=hvd.Adasum)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    backward(model, 0)
    optimizer.step()
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.005])


@pytest.mark.dynamic_process_sets
def test_what_cannot_be_done() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(two_groups(model, "SGD"), op=hvd.Adasum)
    with pytest.raises(AssertionError, match="skip_synchronize"), optimizer.skip_synchronize():
        pass
    members = even_and_odd(hvd)[hvd.rank() % 2]
    with pytest.raises(NotImplementedError, match="global_process_set"):
        hvd.DistributedOptimizer(two_groups(model, "SGD"), op=hvd.Adasum, process_set=members)
