"""Keras 2 in the style of TensorFlow 1, which takes a process of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("passes", ["1", "2"])
def test_training_in_a_session(horovodrun, passes: str) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    if hasattr(tensorflow.keras.optimizers.Optimizer, "stateless_apply"):
        pytest.skip("Keras 2 only")
    script = str(Path(__file__).parent / "keras_in_a_graph.py")
    done = horovodrun("-np", "2", sys.executable, script, passes, timeout=110)
    assert done.returncode == 0, done.stderr

    def numbers(what: str) -> list[float]:
        return [float(number) for number in re.findall(rf"{what} (\S+)", done.stdout)]

    assert numbers("difference") == [0.0, 0.0]
    first, last = numbers("first loss"), numbers("last loss")
    assert last[0] == last[1] < first[0] == first[1]
