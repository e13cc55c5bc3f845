"""Allreduce with TensorFlow: reductions, types, groups, sparse tensors, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_modes import (
    FLOATS,
    REDUCED,
    Run,
    as_array,
    assert_same,
    everyones,
    gradient_of,
    mine,
    run,
    run_in_function,
)

import horovod.tensorflow as hvd

__all__ = ["run"]


@pytest.mark.parametrize(
    ("op", "reduce"),
    [(hvd.Sum, np.sum), (hvd.Min, np.min), (hvd.Max, np.max), (hvd.Product, np.prod)],
    ids=["sum", "min", "max", "product"],
)
def test_reductions(run: Run, op: int, reduce: Any) -> None:
    for dtype in REDUCED:
        for shape in ((), (17,), (5, 4, 3), (0, 2)):
            result = run(lambda tensor: hvd.allreduce(tensor, op=op), mine(shape, dtype))
            assert_same(result, reduce(everyones(shape, dtype), axis=0))


def test_average_is_the_default_and_truncates_integers(run: Run) -> None:
    for dtype in REDUCED:
        result = run(hvd.allreduce, mine((17, 3), dtype))
        mean = everyones((17, 3), dtype).sum(axis=0) / hvd.size()
        if dtype in FLOATS:
            assert_same(result, mean, 2e-2 if dtype == "bfloat16" else 2e-3)
        else:
            assert_same(result, np.trunc(mean))


def test_scaling(run: Run) -> None:
    for dtype in REDUCED:
        result = run(
            lambda tensor: hvd.allreduce(
                tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0
            ),
            mine((17,), dtype),
        )
        whole = np.asarray if dtype in FLOATS else np.trunc
        assert_same(result, whole(whole(everyones((17,), dtype) * 0.5).sum(axis=0) * 4.0))


def test_average_argument_of_old_programs() -> None:
    with pytest.warns(DeprecationWarning, match="average is deprecated"):
        result = hvd.allreduce(tf.constant(mine((4,))), average=False)
    assert_same(result, everyones((4,)).sum(axis=0))
    with pytest.raises(ValueError, match="cannot both be given"):
        hvd.allreduce(tf.constant(1.0), average=True, op=hvd.Sum)


def test_hundreds_at_once_with_one_thread() -> None:
    """Kernels do not block: as many collectives as there are wait on one thread of TensorFlow's."""
    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=1, intra_op_parallelism_threads=1
    )
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        order = range(300) if hvd.rank() % 2 else reversed(range(300))
        sums = {
            number: hvd.allreduce(
                tf.constant(mine((number + 1,))), op=hvd.Sum, name=f"number_{number}"
            )
            for number in order
        }
        results = session.run([sums[number] for number in range(300)])
    for number, result in enumerate(results):
        assert_same(result, everyones((number + 1,)).sum(axis=0))


def test_every_call_runs_also_where_nobody_looks_at_the_result() -> None:
    """Ranks would wait for each other if TensorFlow left out or folded one of them."""

    @tf.function
    def step(use_it: bool) -> Any:
        unused = hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name="unused")
        return unused if use_it else tf.constant([0.0])

    for _ in range(3):
        result = step(hvd.rank() == 0)
    assert_same(result, [hvd.size()] if hvd.rank() == 0 else [0])


def test_results_can_take_the_memory_of_inputs() -> None:
    """Inputs that nothing else needs are reduced in place; others stay as they are."""

    @tf.function
    def step(tensor: Any) -> Any:
        passing = tensor * 2.0
        kept = tensor + 1.0
        return hvd.allreduce(passing, op=hvd.Sum), hvd.allreduce(kept, op=hvd.Sum), kept, tensor

    sent = mine((1000,))
    doubled, increased, kept, tensor = as_array(step(tf.constant(sent)))
    assert_same(doubled, 2 * everyones((1000,)).sum(axis=0))
    assert_same(increased, (everyones((1000,)) + 1).sum(axis=0))
    assert_same(kept, sent + 1)
    assert_same(tensor, sent)


def test_variables_and_compression(run: Run) -> None:
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        result = run(
            lambda tensor, compression=compression: hvd.allreduce(
                tensor, op=hvd.Sum, compression=compression
            ),
            mine((17,)),
        )
        assert result.dtype == np.float32
        assert_same(result, everyones((17,)).sum(axis=0))
    variable = tf.Variable(mine((5,)))
    assert_same(hvd.allreduce(variable, op=hvd.Sum), everyones((5,)).sum(axis=0))
    whole = hvd.allreduce(tf.constant([3]), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert whole.dtype == tf.int32


def test_groups(run: Run) -> None:
    shapes = [(3,), (), (5, 2)]
    for op, reduce in [(hvd.Sum, np.sum), (hvd.Average, np.mean), (hvd.Max, np.max)]:
        results = run(
            lambda *tensors, op=op: hvd.grouped_allreduce(tensors, op=op),
            *(mine(shape) for shape in shapes),
        )
        for shape, result in zip(shapes, results):
            assert_same(result, reduce(everyones(shape), axis=0), 1e-6)
    assert hvd.grouped_allreduce([]) == []


def test_groups_of_several_types(run: Run) -> None:
    arrays = [mine((3,), "float32"), mine((2,), "int64"), mine((4,), "float32")]
    results = run(lambda *tensors: hvd.grouped_allreduce(tensors, op=hvd.Sum), *arrays)
    for array, result in zip(arrays, results):
        assert result.dtype == array.dtype
        assert_same(result, everyones(array.shape, str(array.dtype)).sum(axis=0))


def slices(rows: int = 2) -> tf.IndexedSlices:
    rank = hvd.rank()
    return tf.IndexedSlices(
        tf.fill([rows, 3], float(rank + 1)), tf.range(rows) + rank, tf.constant([10, 3])
    )


def dense(slices: Any, shape: tuple[int, ...] = (10, 3)) -> np.ndarray:
    total = np.zeros(shape)
    np.add.at(total, np.asarray(slices.indices), np.asarray(slices.values))
    return total


def expected_slices(rows: int = 2) -> np.ndarray:
    total = np.zeros((10, 3))
    for rank in range(hvd.size()):
        total[rank : rank + rows] += rank + 1
    return total


@pytest.mark.parametrize("compiled", [False, True])
def test_sparse_tensors(compiled: bool) -> None:
    def reduce(op: int) -> Any:
        return hvd.allreduce(slices(), op=op)

    reduce = tf.function(reduce) if compiled else reduce
    assert_same(dense(reduce(hvd.Sum)), expected_slices())
    assert_same(dense(reduce(hvd.Average)), expected_slices() / hvd.size(), 1e-6)
    assert_same(reduce(hvd.Sum).dense_shape, [10, 3])


def test_sparse_tensors_in_groups_keep_their_shapes() -> None:
    small = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([4, 2]))
    plain = tf.constant(mine((5,)))
    result = hvd.grouped_allreduce([plain, slices(), small], op=hvd.Sum)
    assert_same(result[0], everyones((5,)).sum(axis=0))
    assert_same(dense(result[1]), expected_slices())
    assert_same(result[2].dense_shape, [4, 2])
    assert_same(dense(result[2], (4, 2)), np.eye(4, 2)[:, :1] * [[hvd.size()] * 2])


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product, hvd.Adasum])
def test_what_cannot_be_done_with_sparse_tensors(op: int) -> None:
    for refuse in (
        lambda: hvd.allreduce(slices(), op=op),
        lambda: hvd.grouped_allreduce([slices()], op=op),
        lambda: hvd.grouped_allreduce([tf.constant([1.0]), slices()], op=op),
        lambda: hvd.allreduce(slices(), op=hvd.Sum, prescale_factor=2.0),
        lambda: hvd.grouped_allreduce([slices()], op=hvd.Sum, postscale_factor=2.0),
    ):
        with pytest.raises(NotImplementedError):
            refuse()


def test_gradients() -> None:
    ranks = hvd.size()
    for factor, op in [(ranks, hvd.Sum), (1, hvd.Average)]:

        def reduce(tensor: Any, op: int = op) -> Any:
            return hvd.allreduce(tensor, op=op)

        for function in (reduce, tf.function(reduce)):
            (gradient,) = gradient_of(function, mine((5,)))
            assert_same(gradient, np.full(5, factor), 1e-6)
    (scaled,) = gradient_of(
        lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5), mine((5,))
    )
    assert_same(scaled, np.full(5, 0.5 * ranks))


def test_gradients_of_groups() -> None:
    def reduce(*tensors: Any) -> Any:
        return hvd.grouped_allreduce(tensors, op=hvd.Sum)

    for function in (reduce, tf.function(reduce)):
        for gradient in gradient_of(function, mine((5,)), mine((2, 2))):
            assert_same(gradient, np.full(gradient.shape, hvd.size()))


@pytest.mark.usefixtures("several_ranks")
def test_ranks_that_disagree(run: Run) -> None:
    rank = hvd.rank()
    for shape in [(17 + rank,), (4, 4) if rank else (16,)]:
        with pytest.raises(tf.errors.FailedPreconditionError, match="shape"):
            run(hvd.allreduce, mine(shape))
    with pytest.raises(tf.errors.FailedPreconditionError, match="type"):
        run(hvd.allreduce, mine((3,), "int32" if rank % 2 else "float32"))
    assert_same(run(lambda t: hvd.allreduce(t, op=hvd.Sum), mine((3,))), everyones((3,)).sum(0))


@pytest.mark.usefixtures("several_ranks")
def test_an_error_in_a_group_is_not_lost() -> None:
    """Also if it is not the last tensor's."""
    tensors = [tf.zeros([2 + hvd.rank()]), tf.zeros([3])]
    with pytest.raises(tf.errors.FailedPreconditionError, match="shape"):
        hvd.grouped_allreduce(tensors, op=hvd.Sum)


def test_names_in_errors_are_those_of_the_program() -> None:
    """The name of a node is what the ranks agree on; with `ignore_name_scope`, its last part."""
    if hvd.size() == 1:
        pytest.skip("no other rank to disagree with")

    def disagree(tensor: Any) -> Any:
        with tf.name_scope("outer"):
            return hvd.allreduce(tensor, name="mine", ignore_name_scope=True)

    with pytest.raises(tf.errors.FailedPreconditionError, match="`mine`"):
        run_in_function(disagree, mine((2 + hvd.rank(),)))
    with pytest.raises(tf.errors.FailedPreconditionError, match="`given`"):
        hvd.allreduce(tf.constant(mine((2 + hvd.rank(),))), name="given")
