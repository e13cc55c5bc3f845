"""Collectives inside of compiled graphs, and optimizers of compiled models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from frameworks import even_and_odd

torch = pytest.importorskip("torch")
if not hasattr(torch, "compiler"):
    pytest.skip("this PyTorch does not say when it compiles (torch.compiler)", True)

import horovod.torch as hvd  # noqa: E402
from horovod.common import basics  # noqa: E402
from horovod.torch.operators import KNOWS_NEW_SIZES  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def needs_new_sizes() -> None:
    if not KNOWS_NEW_SIZES:
        pytest.skip("this PyTorch cannot compile results of unknown size (torch.library.custom_op)")


def rows() -> int:
    """Different on each rank."""
    return hvd.rank() + 1


def splits_of(tensor: torch.Tensor) -> torch.Tensor:
    """As many rows to each rank as possible with one left, computed from what a graph knows."""
    return torch.full((hvd.size(),), tensor.shape[0] // hvd.size(), dtype=torch.int32)


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
    "grouped_allreduce, integers": (
        lambda x: hvd.grouped_allreduce([x.long(), x])[1],
        lambda: (4, 3),
    ),
    "allgather": (lambda x: hvd.allgather(x), lambda: (rows(), 3)),
    "grouped_allgather": (
        lambda x: torch.cat(hvd.grouped_allgather([x, x[:1] * 2])),
        lambda: (rows(), 3),
    ),
    "grouped_allgather, integers": (
        lambda x: hvd.grouped_allgather([x.long(), x])[1],
        lambda: (rows(), 3),
    ),
    "broadcast": (lambda x: hvd.broadcast(x, 1), lambda: (4, 3)),
    "alltoall": (lambda x: hvd.alltoall(x), lambda: (2 * hvd.size(), 3)),
    "alltoall, splits": (
        lambda x: hvd.alltoall(x, splits_of(x))[0],
        lambda: (hvd.size() * rows() + 1, 3),
    ),
    "reducescatter": (lambda x: hvd.reducescatter(x, op=hvd.Sum), lambda: (hvd.size() + 1, 3)),
    "grouped_reducescatter": (
        lambda x: torch.cat(hvd.grouped_reducescatter([x, x * 2], op=hvd.Sum)),
        lambda: (hvd.size() + 1, 3),
    ),
    "grouped_reducescatter, integers": (
        lambda x: hvd.grouped_reducescatter([x.long(), x], prescale_factor=3.0)[1],
        lambda: (hvd.size() + 1, 3),
    ),
}


NEW_SIZES = ("allgather", "grouped_allgather", "alltoall")
"""Operations whose results have sizes that a graph does not know in advance."""


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
    has_new_sizes = name.startswith(NEW_SIZES)
    if has_new_sizes:
        needs_new_sizes()
    operation, shape = OPERATIONS[name]

    def function(tensor: torch.Tensor) -> torch.Tensor:
        return operation(tensor.sin()) * 2

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=has_new_sizes):
        mine = results(compiled, shape())
    torch.testing.assert_close(mine, results(function, shape()))


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("name", NEW_SIZES)
def test_a_graph_may_break(name: str) -> None:
    operation, shape = OPERATIONS[name]

    def function(tensor: torch.Tensor) -> torch.Tensor:
        return operation(tensor.sin()) * 2

    compiled = torch.compile(function, backend="aot_eager")
    for mine, expected in zip(results(compiled, shape()), results(function, shape())):
        torch.testing.assert_close(mine, expected)


@pytest.mark.usefixtures("several_ranks")
@pytest.mark.parametrize("name", NEW_SIZES)
def test_new_sizes_need_no_setting_or_it_is_named(name: str) -> None:
    needs_new_sizes()
    operation, shape = OPERATIONS[name]
    compiled = torch.compile(operation, fullgraph=True, backend="eager")
    try:
        mine = results(compiled, shape())
    except torch._dynamo.exc.Unsupported as error:
        assert "capture_dynamic_output_shape_ops" in str(error)
    else:
        torch.testing.assert_close(mine, results(operation, shape()))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_place_is_part_of_a_graph(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def places(tensor: torch.Tensor) -> list[torch.Tensor]:
        if not hvd.is_initialized():
            return []
        place = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]
        place += [hvd.cross_rank(), hvd.cross_size(), *hvd.local_ranks(), *hvd.cross_ranks()]
        return [tensor * number for number in place]

    compiled = torch.compile(places, fullgraph=True, backend=backend)
    ones = torch.ones(2)
    assert [each.tolist() for each in compiled(ones)] == [each.tolist() for each in places(ones)]
    # What is compiled for one place is not used in another.
    elsewhere = basics._initialized()._replace(rank=17)
    monkeypatch.setattr(basics, "_position", elsewhere)
    assert compiled(ones)[0].tolist() == [17.0, 17.0]


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
    if not hasattr(torch.library, "opcheck"):
        pytest.skip("this PyTorch has no check of operators (torch.library.opcheck)")
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
def test_the_backward_pass_can_be_compiled() -> None:
    if not hasattr(torch._dynamo.config, "compiled_autograd"):
        pytest.skip("this PyTorch has no setting for it (torch._dynamo.config.compiled_autograd)")
    model = new_model()
    optimizer = wrap(model)

    @torch.compile(backend="aot_eager")
    def compute_gradients(inputs: torch.Tensor) -> None:
        model(inputs).square().mean().backward()

    with torch._dynamo.config.patch(compiled_autograd=True):
        weights = train(model, compute_gradients, optimizer)
    for mine, expected in zip(weights, trained_without_compiler()):
        torch.testing.assert_close(mine, expected)
