"""SyncBatchNorm equals BatchNorm of one process on the concatenated batches of all ranks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

CHANNELS = 3
PLAIN = {
    2: torch.nn.BatchNorm1d,
    3: torch.nn.BatchNorm1d,
    4: torch.nn.BatchNorm2d,
    5: torch.nn.BatchNorm3d,
}
ROWS = {
    "equal": lambda rank: 4,
    "mixed": lambda rank: rank + 1,
    "one rank has none": lambda rank: 0 if rank == 1 else 3,
}


def batches(rows: Any, dimensions: int, step: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    shapes = [(rows(rank), CHANNELS, 4, 5, 2)[:dimensions] for rank in range(hvd.size())]
    return [torch.randn(s, dtype=torch.float64, generator=generator) * 3 + 5 for s in shapes]


def run(norm: torch.nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the gradient of the input, of a loss with different weights everywhere."""
    batch = batch.clone().requires_grad_()
    output = norm(batch)
    (output.square() * batch.detach().cos()).sum().backward()
    return output.detach(), batch.grad


@pytest.mark.parametrize("dimensions", PLAIN)
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}],
    ids=str,
)
def test_equals_one_process(dimensions: int, rows: Any, options: dict[str, Any]) -> None:
    norm = hvd.SyncBatchNorm(CHANNELS, **options).double()
    plain = PLAIN[dimensions](CHANNELS, **options).double()
    for step in range(3):
        parts = batches(rows, dimensions, step)
        mine = sum(len(part) for part in parts[: hvd.rank()])
        output, grad = run(norm, parts[hvd.rank()])
        expected, expected_grad = run(plain, torch.cat(parts))
        own = slice(mine, mine + len(parts[hvd.rank()]))
        torch.testing.assert_close(output, expected[own])
        torch.testing.assert_close(grad, expected_grad[own])
    assert norm.state_dict().keys() == plain.state_dict().keys()
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value)
    for mine, whole in zip(norm.parameters(), plain.parameters()):
        torch.testing.assert_close(hvd.allreduce(mine.grad, op=hvd.Sum), whole.grad)


def test_evaluation_needs_nobody_else() -> None:
    norm = hvd.SyncBatchNorm(CHANNELS)
    norm(torch.randn(4, CHANNELS))
    norm.eval()
    plain = torch.nn.BatchNorm1d(CHANNELS)
    plain.load_state_dict(norm.state_dict())
    plain.eval()
    if hvd.rank() == 0:
        batch = torch.randn(2, CHANNELS)
        torch.testing.assert_close(norm(batch), plain(batch))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_types(dtype: torch.dtype) -> None:
    batch = torch.randn(4, CHANNELS, generator=torch.Generator().manual_seed(hvd.rank()))
    norm = hvd.SyncBatchNorm(CHANNELS)
    output = norm(batch.to(dtype))
    assert output.dtype == dtype
    expected = hvd.SyncBatchNorm(CHANNELS)(batch.to(dtype).float())
    torch.testing.assert_close(output.float(), expected, atol=2e-2, rtol=2e-2)


def test_in_a_model_with_the_optimizer() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, CHANNELS, 3), hvd.SyncBatchNorm(CHANNELS), torch.nn.Flatten()
    ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    for step in range(2):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + hvd.rank())
        model(torch.randn(3, 2, 4, 4)).square().mean().backward()
        optimizer.step()
    states = hvd.allgather_object({k: v.tolist() for k, v in model.state_dict().items()})
    assert all(state == states[0] for state in states)


def test_what_cannot_be_normalised() -> None:
    norm = hvd.SyncBatchNorm(CHANNELS)
    with pytest.raises(ValueError, match="2D"):
        norm(torch.ones(CHANNELS))
    if hvd.size() > 1:
        rows = 1 if hvd.rank() == 0 else 0
        with pytest.raises(ValueError, match="more than 1 value per channel over all ranks"):
            norm(torch.ones(rows, CHANNELS))
