"""The elastic state of Keras and its callbacks, with every Keras there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras_cases import array, assert_equal_on_all_ranks, data, hvd, keras, model_of, weights_of

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


def compiled() -> Any:
    """A model with weights of this rank's own, and an optimizer that has state."""
    model = model_of([3, 1])
    model.compile(keras.optimizers.SGD(0.05 * (1 + hvd.rank()), momentum=0.9), loss="mse")
    random = np.random.default_rng(hvd.rank())
    model.set_weights([random.normal(size=each.shape) for each in model.get_weights()])
    return model


def fit(model: Any, **options: Any) -> None:
    options = {"epochs": 1, "batch_size": 8, "verbose": 0, "shuffle": False, **options}
    model.fit(*data(hvd.rank()), **options)


def everything(model: Any) -> Any:
    """Weights and state of the optimizer, in one row."""
    state = [array(each).ravel() for each in hvd.callbacks._impl.variables_of(model.optimizer)]
    return np.concatenate([weights_of(model)[0], *state])[None]


def test_sync_makes_everything_rank_0s_every_time() -> None:
    model = compiled()
    state = hvd.elastic.KerasState(model, epoch=hvd.rank(), batch=5 + hvd.rank())
    for _ in range(2):
        if hvd.rank() == 0:
            fit(model)  # the others' optimizers have not run in the first round
        expected = hvd.broadcast(everything(model), 0)
        state.epoch = hvd.rank()
        state.sync()
        np.testing.assert_array_equal(everything(model), expected)
        assert (state.epoch, state.batch) == (0, 5)
        fit(model)


def test_restore_and_commit() -> None:
    model = compiled()
    state = hvd.elastic.KerasState(model, epoch=0)
    before = everything(model)
    fit(model)
    state.restore()
    np.testing.assert_array_equal(everything(model), before)
    fit(model)
    state.epoch = 1
    state.commit()
    committed = everything(model)
    assert (committed != before).any()
    for _ in range(2):
        fit(model)
        state.epoch = 2
        assert (everything(model) != committed).any()
        state.restore()
        np.testing.assert_array_equal(everything(model), committed)
        assert state.epoch == 1


def test_a_model_must_be_built_but_needs_no_optimizer() -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="build it by"):
        hvd.elastic.KerasState(model)
    model.build((None, 4))
    state = hvd.elastic.KerasState(model)
    state.sync()
    assert_equal_on_all_ranks(weights_of(model))


class Log:
    """Pretends to be a state, and notes what is committed."""

    def __init__(self) -> None:
        self.epoch = 0
        self.batch = 0
        self.commits: list[tuple[int, int]] = []

    def commit(self) -> None:
        self.commits.append((self.epoch, self.batch))


@pytest.mark.parametrize("every", [1, 3])
def test_callbacks_during_training(every: int) -> None:
    state = Log()
    callbacks = (
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
    )
    commit = hvd.elastic.CommitStateCallback(state, batches_per_commit=every)
    model = compiled()
    for _ in range(2):  # 8 batches in each epoch
        state.commits.clear()
        epoch = state.epoch
        fit(model, epochs=2, callbacks=[*callbacks, commit])
        batches = [(epoch + step // 8, step % 8) for step in range(16) if (step + 1) % every == 0]
        ends = [(epoch + 1, 0), (epoch + 2, 0)]
        assert sorted(state.commits) == sorted(batches + ends)
        assert state.commits[-1] == ends[-1] and state.epoch == epoch + 2
    fit(model, initial_epoch=state.epoch, epochs=6, callbacks=[*callbacks])
    assert state.epoch == 6


def test_what_is_left_of_an_interrupted_epoch() -> None:
    state = Log()
    state.batch = 3
    callback = hvd.elastic.UpdateBatchStateCallback(state)
    callback.set_params({"steps": 10})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    assert callback.params["steps"] == 7
    callback.on_batch_end(4)
    assert state.batch == 4
    callback.on_epoch_end(0)
    callback.on_epoch_begin(1)
    assert state.batch == 0 and callback.params["steps"] == 10


def test_a_commit_needs_batches() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        hvd.elastic.CommitStateCallback(Log(), 0)


def test_commits_during_training_hold_what_was_trained() -> None:
    model = compiled()
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    state.sync()
    commit = hvd.elastic.CommitStateCallback(state)
    fit(model, callbacks=[hvd.elastic.UpdateBatchStateCallback(state), commit])
    trained = everything(model)
    fit(model)
    state.restore()
    np.testing.assert_array_equal(everything(model), trained)


def test_run_joins_again_and_goes_on() -> None:
    model = model_of([3, 1])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), loss="mse")
    state = hvd.elastic.KerasState(model, epoch=hvd.rank())
    rounds = []

    @hvd.elastic.run
    def train(state: Any, epochs: int) -> str:
        rounds.append(state.epoch)
        update = hvd.elastic.UpdateEpochStateCallback(state)
        fit(model, epochs=1, callbacks=[update, hvd.elastic.CommitStateCallback(state)])
        if state.epoch < epochs:
            raise HostsUpdatedInterrupt
        return "done"

    assert train(state, 2) == "done"
    assert rounds == [0, 1] and state.epoch == 2
    assert_equal_on_all_ranks(weights_of(model))


def test_a_lost_rank_in_a_job_that_is_not_elastic(several_ranks: None) -> None:
    model = model_of([3, 1])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), loss="mse")

    @hvd.elastic.run
    def train(state: Any) -> None:
        if hvd.rank() == 1:
            hvd.shutdown()
        else:
            fit(model)

    state = hvd.elastic.KerasState(model)
    if hvd.rank() == 1:
        train(state)
    else:
        with pytest.raises(HorovodInternalError, match=r"(?s)rank 1.*not started with elastic"):
            train(state)
