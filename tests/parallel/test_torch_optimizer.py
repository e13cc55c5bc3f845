"""DistributedOptimizer: training with several ranks equals training in one process."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

ROWS = 4
STEPS = 5
SHARED = torch.nn.Parameter(torch.ones(1))


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    ).double()


def batch(step: int, rank: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's part of a step's data, or all of it."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(hvd.size(), ROWS, 6, dtype=torch.float64, generator=generator)
    targets = torch.randn(hvd.size(), ROWS, 2, dtype=torch.float64, generator=generator)
    if rank is None:
        return inputs.flatten(0, 1), targets.flatten(0, 1)
    return inputs[rank], targets[rank]


def loss_of(model: torch.nn.Module, step: int, rank: int | None) -> torch.Tensor:
    inputs, targets = batch(step, rank)
    return torch.nn.functional.mse_loss(model(inputs), targets)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def trained_alone(loss_factor: float = 1.0, passes: int = 1) -> torch.nn.Module:
    model = new_model()
    optimizer = sgd(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(passes):
            (loss_of(model, step * passes + part, None) * loss_factor).backward()
        optimizer.step()
    return model


def assert_same(model: torch.nn.Module, expected: torch.nn.Module, tolerance=1e-12) -> None:
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("options", "factor", "tolerance"),
    [
        ({}, lambda: 1.0, 1e-12),
        ({"op": hvd.Sum}, lambda: float(hvd.size()), 1e-12),
        ({"gradient_predivide_factor": 2.0}, lambda: 1.0, 1e-12),
        ({"compression": hvd.Compression.fp16}, lambda: 1.0, 2e-3),
        ({"compression": hvd.Compression.bf16}, lambda: 1.0, 2e-2),
    ],
    ids=["average", "sum", "predivide", "fp16", "bf16"],
)
def test_equals_one_process(options, factor: Callable[[], float], tolerance: float) -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, hvd.rank()).backward()
        optimizer.step()
    assert_same(model, trained_alone(factor()), tolerance)


def test_several_backward_passes_per_step() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(
        sgd(model), model.named_parameters(), backward_passes_per_step=3
    )
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(3):
            loss_of(model, step * 3 + part, hvd.rank()).backward()
        optimizer.step()
    assert_same(model, trained_alone(passes=3))


@pytest.mark.usefixtures("several_ranks")
def test_too_many_backward_passes() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss_of(model, 0, hvd.rank()).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, 0, hvd.rank()).backward()
    optimizer.synchronize()
    optimizer.set_backward_passes_per_step(2)
    for _ in range(2):
        loss_of(model, 0, hvd.rank()).backward()
    optimizer.synchronize()


def test_with_a_closure() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for step in range(STEPS):

        def closure(step: int = step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, step, hvd.rank())
            loss.backward()
            return loss

        assert isinstance(optimizer.step(closure), torch.Tensor)
    assert_same(model, trained_alone())


def test_clipping_between_synchronize_and_step() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step, hvd.rank()).backward()
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
            with optimizer.skip_synchronize():
                optimizer.step()
    assert_same(model, trained_alone())


def test_warning_without_skip_synchronize() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss_of(model, 0, hvd.rank()).backward()
    optimizer.synchronize()
    start = r"^optimizer\.step\(\) called without optimizer\.skip_synchronize\(\)"
    with pytest.warns(UserWarning, match=start) as caught:
        optimizer.step()
    assert len(caught) == 1


@pytest.mark.usefixtures("several_ranks")
def test_zero_grad_while_gradients_travel() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss_of(model, 0, hvd.rank()).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def test_ranks_use_different_parts_of_the_model() -> None:
    parts = torch.nn.ModuleList([torch.nn.Linear(3, 1) for _ in range(2)])
    hvd.broadcast_parameters(parts.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, parts.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        parts[hvd.rank() % 2](torch.ones(1, 3)).sum().backward()
        optimizer.step()
    weights = hvd.allgather_object(
        {name: tensor.tolist() for name, tensor in parts.state_dict().items()}
    )
    assert all(weight == weights[0] for weight in weights)


def test_requires_grad_changes_between_steps() -> None:
    model = new_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for step in range(4):
        model[0].weight.requires_grad_(step % 2 == 0)
        optimizer.zero_grad()
        loss_of(model, step, hvd.rank()).backward()
        optimizer.step()
    sums = hvd.allgather_object(float(model[0].weight.sum()))
    assert sums == [sums[0]] * hvd.size()


@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_sparse_gradients(sparse_as_dense: bool) -> None:
    torch.manual_seed(1)
    model = torch.nn.Embedding(10, 3, sparse=True).double()
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), sparse_as_dense=sparse_as_dense
    )
    model(torch.tensor([0, hvd.rank() + 1])).sum().backward()
    optimizer.step()
    alone(torch.tensor([[0, rank + 1] for rank in range(hvd.size())])).sum().backward()
    with torch.no_grad():
        alone.weight -= 0.1 * alone.weight.grad.to_dense() / hvd.size()
    torch.testing.assert_close(model.weight, alone.weight)


def test_gradients_in_another_memory_format() -> None:
    torch.manual_seed(1)
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    images = torch.full((1, 3, 5, 5), float(hvd.rank() + 1))
    model(images.to(memory_format=torch.channels_last)).sum().backward()
    optimizer.synchronize()
    average = sum(9.0 * (rank + 1) for rank in range(hvd.size())) / hvd.size()
    torch.testing.assert_close(model.weight.grad, torch.full((4, 3, 3, 3), average))


def test_the_wrapped_optimizer_lives_on() -> None:
    model = new_model()
    wrapped = sgd(model)
    calls = []
    # The compiler of old versions, where it was ever used, turns hooks of all optimizers off.
    plain = sgd(new_model())
    plain.register_step_post_hook(lambda *_: calls.append("hook"))
    plain.step()
    expected = 2 * calls
    wrapped.register_step_post_hook(lambda *_: calls.append("hook"))
    torch.optim.lr_scheduler.StepLR(wrapped, 1)  # puts its own `step` on the instance
    optimizer = hvd.DistributedOptimizer(wrapped, model.named_parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert isinstance(optimizer, torch.optim.SGD)
    assert type(optimizer).__name__ == "SGD"
    assert optimizer.param_groups[0]["momentum"] == 0.9
    loss_of(model, 0, hvd.rank()).backward()
    optimizer.step()
    assert calls == expected
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_a_group_added_later_is_combined() -> None:
    model = new_model()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, hvd.rank()).backward()
        optimizer.step()
    assert_same(model, trained_alone())


def test_without_names_and_with_several_groups() -> None:
    model = new_model()
    groups = [{"params": list(layer.parameters())} for layer in (model[0], model[2])]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, hvd.rank()).backward()
        optimizer.step()
    assert_same(model, trained_alone())


def test_names_are_checked() -> None:
    model = new_model()
    named = list(model.named_parameters())
    with pytest.raises(ValueError, match=r"given twice: 0\.weight"):
        hvd.DistributedOptimizer(sgd(model), [*named, named[0]])
    with pytest.raises(ValueError, match=str(id(named[-1][1]))):
        hvd.DistributedOptimizer(sgd(model), named[:2])
    with pytest.raises(ValueError, match="pairs"):
        hvd.DistributedOptimizer(sgd(model), model.parameters())
    hvd.DistributedOptimizer(sgd(model), [*named, ("more", torch.nn.Parameter(torch.ones(1)))])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"backward_passes_per_step": 0}, ValueError, "backward_passes_per_step"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, ValueError, "op=Average"),
        ({"op": hvd.Max}, ValueError, "Average, Sum or Adasum"),
        ({"groups": 0}, ValueError, "groups must be a number greater than 0"),
        ({"groups": "all"}, ValueError, "groups must be"),
        ({"groups": [3]}, ValueError, r"groups\[0\] must be a list"),
        ({"groups": [[], [3]]}, ValueError, r"groups\[1\] must hold tensors, not 3"),
        ({"groups": [[SHARED], [SHARED]]}, ValueError, "twice"),
        ({"process_set": hvd.ProcessSet([0])}, ValueError, "must be registered"),
    ],
)
def test_options_are_checked(options, error: type[Exception], text: str) -> None:
    model = new_model()
    with pytest.raises(error, match=text):
        hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
