"""Collectives inside of compiled graphs, and optimizers of compiled models."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from frameworks import even_and_odd

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="needs PyTorch 2.4 or newer"
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def rows() -> int:
    """Different on each rank."""
    return hvd.rank() + 1


def splits_of(tensor: torch.Tensor) -> torch.Tensor:
    """As many rows to each rank as possible with one left, computed from what a graph knows."""
    parts = int(os.environ["HOROVOD_SIZE"])
    return torch.full((parts,), tensor.shape[0] // parts, dtype=torch.int32)


OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[int, ...]]]] = {
    "allreduce": (lambda x: hvd.allreduce(x), lambda: (4, 3)),
    "allreduce, options": (
        lambda x: hvd.allreduce(
            x,
            name="named",
            op=hvd.Sum,
            prescale_factor=0.5,
            postscale_factor=3.0,
            compression=hvd.Compression.fp16,
        ),
        lambda: (4, 3),
    ),
    "grouped_allreduce": (
        lambda x: sum(hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)),
        lambda: (4, 3),
    ),
    "allgather": (lambda x: hvd.allgather(x), lambda: (rows(), 3)),
    "broadcast": (lambda x: hvd.broadcast(x, 1), lambda: (4, 3)),
    "alltoall": (lambda x: hvd.alltoall(x), lambda: (2 * hvd.size(), 3)),
    "alltoall, splits": (
        lambda x: hvd.alltoall(x, splits_of(x))[0],
        lambda: (hvd.size() * rows() + 1, 3),
    ),
    "reducescatter": (lambda x: hvd.reducescatter(x, op=hvd.Sum), lambda: (hvd.size() + 1, 3)),
}


def results(operation: Callable[..., Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """What a loss with an operation inside is, and its gradient."""
    generator = torch.Generator().manual_seed(hvd.rank())
    tensor = torch.randn(shape, generator=generator, requires_grad=True)
    output = operation(tensor)
    output.cos().sum().backward()
    return output.detach(), tensor.grad


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_in_one_graph(name: str, backend: str) -> None:
    operation, shape = OPERATIONS[name]

    def function(tensor: torch.Tensor) -> torch.Tensor:
        return operation(tensor.sin()) * 2

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for mine, expected in zip(results(compiled, shape()), results(function, shape())):
        torch.testing.assert_close(mine, expected)


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.dynamic_process_sets
def test_on_a_process_set() -> None:
    members = even_and_odd(hvd)[hvd.rank() % 2]

    def function(tensor: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(tensor.sin(), op=hvd.Sum, process_set=members)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for mine, expected in zip(results(compiled, (4, 3)), results(function, (4, 3))):
        torch.testing.assert_close(mine, expected)


def test_operators_follow_the_rules() -> None:
    samples: dict[Any, tuple[Any, ...]] = {
        torch.ops.horovod.allreduce: (None, hvd.Sum, 1.0, 2.0, 0),
        torch.ops.horovod.broadcast: (0, None, 0),
        torch.ops.horovod.allgather: (None, 0),
        torch.ops.horovod.reducescatter: (None, hvd.Sum, 1.0, 1.0, 0),
    }
    for operator, arguments in samples.items():
        tensor = torch.randn(2 * hvd.size(), 3, requires_grad=True)
        torch.library.opcheck(
            operator, (tensor, *arguments), test_utils=("test_schema", "test_faketensor")
        )


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))


def wrap(model: torch.nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters())


def train(model: torch.nn.Module, compute_gradients: Any, optimizer: Any) -> list[Any]:
    for step in range(3):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + hvd.rank())
        compute_gradients(torch.randn(5, 4))
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def trained_without_compiler() -> list[Any]:
    model = new_model()
    return train(model, lambda x: model(x).square().mean().backward(), wrap(model))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("order", ["compiled first", "wrapped first"])
def test_optimizer_of_a_compiled_model(backend: str, order: str) -> None:
    model = new_model()
    if order == "compiled first":
        call = torch.compile(model, backend=backend)
        optimizer = wrap(model)
    else:
        optimizer = wrap(model)
        call = torch.compile(model, backend=backend)
    weights = train(model, lambda x: call(x).square().mean().backward(), optimizer)
    for mine, expected in zip(weights, trained_without_compiler()):
        torch.testing.assert_close(mine, expected)


@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_the_backward_pass_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(torch._dynamo.config, "compiled_autograd"):
        pytest.skip("needs PyTorch 2.5 or newer")
    monkeypatch.setattr(torch._dynamo.config, "compiled_autograd", True)
    model = new_model()
    optimizer = wrap(model)

    @torch.compile(backend="aot_eager")
    def compute_gradients(inputs: torch.Tensor) -> None:
        model(inputs).square().mean().backward()

    weights = train(model, compute_gradients, optimizer)
    torch._dynamo.config.compiled_autograd = False
    for mine, expected in zip(weights, trained_without_compiler()):
        torch.testing.assert_close(mine, expected)
