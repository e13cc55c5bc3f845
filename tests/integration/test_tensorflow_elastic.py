"""TensorFlow: a rank that is killed inside of `elastic.run`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from elastic_death import assert_a_killed_rank_ends_the_job

REDUCE = "tensorflow.function(lambda: hvd.allreduce(tensorflow.ones(4), name='gradient'))"
STATE = "hvd.elastic.TensorFlowState([tensorflow.Variable(1.0)], step=0)"


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
def test_a_killed_rank_ends_the_job(horovodrun: Callable[..., Any]) -> None:
    assert_a_killed_rank_ends_the_job(horovodrun, "tensorflow", REDUCE, STATE)
