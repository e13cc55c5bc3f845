"""What is particular about PyTorch tensors: layout, devices, deprecated arguments, compression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402


@pytest.mark.parametrize(
    "operation",
    [
        hvd.allreduce,
        hvd.allreduce_,
        hvd.allgather,
        lambda tensor: hvd.broadcast(tensor, 0),
        lambda tensor: hvd.broadcast_(tensor, 0),
        hvd.alltoall,
        hvd.reducescatter,
    ],
)
def test_only_contiguous_tensors(operation) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        operation(torch.ones(3, 4).t())


def test_other_devices_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="meta"):
        hvd.allreduce(torch.ones(3, device="meta"))


def test_sparse_tensors_have_their_own_function() -> None:
    with pytest.raises(ValueError, match="sparse"):
        hvd.allreduce(torch.ones(3).to_sparse())
    dense = torch.zeros(6, 2)
    dense[hvd.rank()] = hvd.rank() + 1
    for op in (hvd.Sum, hvd.Average):
        wait = hvd.sparse_allreduce_async(dense.to_sparse(1), name="sparse", op=op)
        assert torch.allclose(wait().to_dense(), hvd.allreduce(dense, op=op))
    empty = hvd.sparse_allreduce_async(torch.zeros(6, 2).to_sparse(1), name="empty", op=hvd.Sum)
    assert torch.equal(empty().to_dense(), torch.zeros(6, 2))


def test_not_a_tensor() -> None:
    with pytest.raises(TypeError, match="list"):
        hvd.allreduce_([1.0])


def test_the_argument_average() -> None:
    tensor = torch.ones(3)
    with pytest.warns(DeprecationWarning, match="op=hvd.Average"):
        assert torch.equal(hvd.allreduce(tensor, average=True), tensor)
    with pytest.warns(DeprecationWarning, match="average"):
        assert torch.equal(hvd.allreduce(tensor, average=False), tensor * hvd.size())
    with pytest.raises(ValueError, match="both"):
        hvd.allreduce(tensor, average=True, op=hvd.Sum)


@pytest.mark.parametrize(
    ("compression", "short"),
    [(hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)],
)
def test_compression(compression, short: torch.dtype) -> None:
    for dtype in (torch.float32, torch.float64):
        compressed, ctx = compression.compress(torch.ones(3, dtype=dtype))
        assert compressed.dtype == short
        assert compression.decompress(compressed, ctx).dtype == dtype
    whole = torch.ones(3, dtype=torch.int64)
    assert compression.compress(whole)[0] is whole
    assert hvd.Compression.none.compress(whole)[0] is whole
    result = hvd.reducescatter(torch.ones(hvd.size()), compression=compression)
    assert result.dtype == torch.float32
    assert torch.equal(result, torch.ones(1))


def test_complex_tensors() -> None:
    ranks = torch.arange(hvd.size())
    tensor = torch.full((hvd.size(), 3), 1 + 1j * hvd.rank())
    total = torch.complex(torch.tensor(float(hvd.size())), ranks.sum().float())
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), total.expand(hvd.size(), 3))
    assert torch.equal(
        hvd.grouped_allreduce([tensor])[0], (total / hvd.size()).expand(tensor.shape)
    )
    assert torch.equal(hvd.reducescatter(tensor, op=hvd.Sum), total.expand(1, 3))
    assert torch.equal(hvd.broadcast(tensor, 0), torch.ones_like(tensor))
    everyones = torch.complex(torch.ones(hvd.size()), ranks.float())[:, None].expand(-1, 3)
    assert torch.equal(hvd.alltoall(tensor), everyones)
    assert torch.equal(hvd.allgather(tensor[:1]), everyones)
    assert hvd.allreduce(torch.tensor(1j), op=hvd.Sum) == 1j * hvd.size()
    with pytest.raises(ValueError, match="op=Average or op=Sum"):
        hvd.allreduce(tensor, op=hvd.Max)
    with pytest.raises(ValueError, match="complex scalar"):
        hvd.allgather(torch.tensor(1j))
    with pytest.raises(ValueError, match="resolve_conj"):
        hvd.allreduce(tensor.conj())


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_element_that_is_shown_with_the_other_sign(shape: tuple[int, ...]) -> None:
    shown = torch.full(shape, 3j).conj().imag
    assert shown.is_contiguous()
    for tensor in (shown, shown.reshape(()), shown.reshape(()).view(1)):
        with pytest.raises(ValueError, match="resolve_neg"):
            hvd.allreduce_(tensor)


def test_views_and_parameters_in_place() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    expected = whole.clone()
    expected[1] *= hvd.size()
    for tensor in (whole[1], torch.nn.Parameter(whole[1:2].reshape(2, 2), requires_grad=False)):
        memory = tensor.data_ptr()
        assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
        assert tensor.data_ptr() == memory
        assert torch.equal(whole, expected)
        expected[1] *= hvd.size()
    empty = torch.empty(3, 0)
    assert hvd.allreduce_(empty) is empty


def test_a_subclass_of_tensor_in_place() -> None:
    class Labelled(torch.Tensor):
        """Does not take the fast path."""

    tensor = torch.ones(3).as_subclass(Labelled)
    assert hvd.allreduce_(tensor, name="labelled", op=hvd.Sum) is tensor
    assert tensor.tolist() == [hvd.size()] * 3


def test_arguments_of_an_operation_in_place() -> None:
    tensor = torch.ones(2)
    with pytest.raises(ValueError, match="unknown reduction"):
        hvd.allreduce_(tensor, op="Sum")
    with pytest.raises(ValueError, match="unknown reduction"):
        hvd.allreduce_(tensor, op=17)
    with pytest.raises(ValueError, match="ProcessSet"):
        hvd.allreduce_(tensor, process_set=0)
    assert hvd.allreduce_(tensor, name=5, op=hvd.Sum, prescale_factor=2).tolist() == (
        [2.0 * hvd.size()] * 2
    )


REFUSALS = (ValueError, TypeError, NotImplementedError)
WRONG_ARGUMENTS: list[dict[str, Any]] = [
    {"op": 17},
    {"op": -1},
    {"op": "Sum"},
    {"process_set": 0},
    {"process_set": hvd.ProcessSet([0])},
    {"op": hvd.Adasum, "process_set": hvd.ProcessSet([0])},
    {"prescale_factor": "half"},
    {"postscale_factor": []},
]


@pytest.mark.parametrize("arguments", WRONG_ARGUMENTS, ids=str)
def test_every_entry_point_refuses_wrong_arguments_alike(arguments: dict[str, Any]) -> None:
    class Labelled(torch.Tensor):
        """Does not take the fast path."""

    refusals = set()
    tensors = [torch.ones(3), torch.ones(3).as_subclass(Labelled)]
    for operation in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async_):
        for tensor in tensors:
            with pytest.raises(REFUSALS) as refused:
                operation(tensor, **arguments)
            refusals.add((refused.type, str(refused.value)))
    for operation in (hvd.grouped_allreduce, hvd.grouped_allreduce_):
        with pytest.raises(REFUSALS) as refused:
            operation(tensors[:1], **arguments)
        refusals.add((refused.type, str(refused.value)))
    assert len(refusals) == 1, refusals


def test_factors_may_be_what_float_accepts() -> None:
    for factor in (2, "2", np.float32(2), torch.tensor(2)):
        tensor = torch.ones(3)
        assert hvd.allreduce_(tensor, prescale_factor=factor).tolist() == [2.0] * 3
        assert hvd.allreduce(tensor, postscale_factor=factor).tolist() == [4.0] * 3
