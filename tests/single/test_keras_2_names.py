"""What programs reach for in wrapped optimizers of Keras 2, as `tf_keras` has them too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")

REACH = """
import tensorflow as tf
import horovod.tensorflow.keras as hvd

hvd.init()
for optimizers in (tf.keras.optimizers, tf.keras.optimizers.legacy):
    plain = hvd.DistributedOptimizer(optimizers.SGD(0.1))
    assert plain._agg_helper is None
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(0.1), backward_passes_per_step=2)
    assert optimizer._agg_helper.backward_passes_per_step == 2
    variable = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = variable * 3.0
    ((gradient, same),) = plain._compute_gradients(loss, [variable], tape=tape)
    assert gradient.numpy() == 3.0 and same is variable
print("reached", tf.keras.optimizers.SGD.__module__)
"""


def test_wrapped_optimizers_of_keras_2() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REACH],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "reached tf_keras" in done.stdout
