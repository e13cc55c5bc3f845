"""Training with what real programs do: mixed precision, shared and missing gradients, odd types."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

ROWS = 4


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def data(step: int, ranks: range) -> torch.Tensor:
    parts = [torch.Generator().manual_seed(1000 * step + rank) for rank in ranks]
    return torch.cat([torch.randn(ROWS, 6, generator=generator) for generator in parts])


def mine() -> range:
    return range(hvd.rank(), hvd.rank() + 1)


def all_ranks() -> range:
    return range(hvd.size())


def distributed(model: torch.nn.Module, optimizer: Any = None, **options: Any) -> Any:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)


def assert_same(model: torch.nn.Module, expected: torch.nn.Module, tolerance: float) -> None:
    for mine, theirs in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def assert_agreed(model: torch.nn.Module) -> None:
    weights = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert weights == [weights[0]] * hvd.size()


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_equal_one_process_with_the_whole_batch(name: str) -> None:
    model, alone = new_model(), new_model()
    optimizer = distributed(model, OPTIMIZERS[name](model.parameters()))
    plain = OPTIMIZERS[name](alone.parameters())
    for step in range(50):
        for trained, steps, ranks in [(model, optimizer, mine()), (alone, plain, all_ranks())]:
            steps.zero_grad()
            (trained(data(step, ranks)) - 1).square().mean().backward()
            steps.step()
    assert_same(model, alone, 2e-5)
    assert_agreed(model)


@pytest.mark.parametrize("overflow", [False, True])
def test_gradient_scaler(overflow: bool) -> None:
    if not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has no gradient scaler for CPUs (torch.amp.GradScaler)")
    model, alone = new_model(), new_model()
    before = copy.deepcopy(model)
    optimizer = distributed(model)
    plain = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(data(step, mine())).square().mean()
        last = overflow and hvd.rank() == hvd.size() - 1
        scaler.scale(loss * (float("inf") if last else 1.0)).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        plain.zero_grad()
        alone(data(step, all_ranks())).square().mean().backward()
        plain.step()
    assert_agreed(model)
    assert_same(model, before if overflow else alone, 2e-2)
    assert scaler.get_scale() == (1024.0 / 8 if overflow else 1024.0)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_parameters_without_gradient_in_some_steps(set_to_none: bool) -> None:
    parts = torch.nn.ModuleList([new_model() for _ in range(3)])
    optimizer = distributed(parts)
    alone = copy.deepcopy(parts)
    plain = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    for parameter in alone.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for step in range(5):
        used = step % 3
        optimizer.zero_grad(set_to_none=set_to_none)
        parts[used](data(step, mine())).square().mean().backward()
        optimizer.step()
        plain.zero_grad(set_to_none=False)
        alone[used](data(step, all_ranks())).square().mean().backward()
        plain.step()
    assert_same(parts, alone, 1e-5)


def test_frozen_and_shared_parameters() -> None:
    def tied() -> torch.nn.Module:
        torch.manual_seed(1)
        layers = [torch.nn.Linear(6, 6) for _ in range(3)]
        layers[2].weight = layers[0].weight
        layers[1].weight.requires_grad_(False)
        return torch.nn.Sequential(*layers)

    model, alone = tied(), tied()
    optimizer = distributed(model)
    plain = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        for trained, steps, ranks in [(model, optimizer, mine()), (alone, plain, all_ranks())]:
            steps.zero_grad()
            trained(data(step, ranks)).square().mean().backward()
            steps.step()
    assert_same(model, alone, 1e-5)


def test_a_model_that_changes_after_it_was_wrapped() -> None:
    model = new_model()
    optimizer = distributed(model)
    model.double()
    for step in range(2):
        optimizer.zero_grad()
        model(data(step, mine()).double()).square().mean().backward()
        optimizer.step()
    assert model[0].weight.dtype == torch.float64
    assert_agreed(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_types(dtype: torch.dtype) -> None:
    model = new_model().to(dtype)
    optimizer = distributed(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(2):
        optimizer.zero_grad()
        # Old versions cannot multiply matrices of every short type on a CPU.
        long = {name: parameter.float() for name, parameter in model.named_parameters()}
        output = torch.func.functional_call(model, long, data(step, mine()))
        output.square().mean().backward()
        optimizer.step()
    assert_agreed(model)


@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"op": hvd.Sum}], ids=str)
def test_complex_and_transposed_parameters(options: dict[str, Any]) -> None:
    values = torch.tensor([[1 + 2j, 2.0, 3j], [1.0, -1j, 4.0]])
    parameters = {
        "complex": torch.nn.Parameter(values.clone()),
        "complex scalar": torch.nn.Parameter(torch.tensor(2 + 1j)),
        "transposed": torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t()),
    }
    optimizer = torch.optim.SGD(parameters.values(), lr=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, parameters.items(), **options)
    loss = (parameters["complex"] * (hvd.rank() + 1j)).abs().square().sum()
    loss = loss + (parameters["complex scalar"] * (hvd.rank() + 1)).abs().square()
    loss = loss + (parameters["transposed"] * (hvd.rank() + 1)).square().sum()
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    loss.backward()
    optimizer.step()
    divisor = 1 if options.get("op") == hvd.Sum else hvd.size()
    for name, factor in [("complex", lambda r: r * r + 1), ("transposed", lambda r: (r + 1) ** 2)]:
        slope = 2 * sum(factor(rank) for rank in all_ranks()) / divisor
        expected = before[name] - 0.5 * slope * before[name]
        torch.testing.assert_close(parameters[name].detach(), expected)


def test_a_conjugated_gradient() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    parameter.backward((torch.ones(2) * (1 + 1j * hvd.rank())).conj())
    optimizer.synchronize()
    middle = (hvd.size() - 1) / 2
    torch.testing.assert_close(parameter.grad.resolve_conj(), torch.full((2,), 1 - 1j * middle))


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.usefixtures("several_ranks")
def test_gradients_of_gradients_are_refused() -> None:
    model = new_model()
    optimizer = distributed(model)
    with pytest.raises(AssertionError, match="gradients of gradients"):
        model(data(0, mine())).square().mean().backward(create_graph=True)
    hvd.barrier()
    del optimizer


def test_an_optimizer_that_was_given_up_does_not_act() -> None:
    model = new_model()
    optimizer = distributed(model)
    del optimizer
    gc.collect()
    optimizer = distributed(model)
    for step in range(2):
        optimizer.zero_grad()
        model(data(step, mine())).square().mean().backward()
        optimizer.step()
    assert_agreed(model)
