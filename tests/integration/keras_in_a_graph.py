"""Trains with Keras 2 in a graph and a session, and prints what the ranks ended with."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

tf.compat.v1.disable_eager_execution()
hvd.init()
tf.compat.v1.set_random_seed(hvd.rank())
random = np.random.default_rng(hvd.rank())
inputs = random.normal(size=(64, 4))

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
optimizer = hvd.DistributedOptimizer(
    tf.keras.optimizers.legacy.SGD(0.1, momentum=0.5), backward_passes_per_step=int(sys.argv[1])
)
model.compile(optimizer, loss="mse")
history = model.fit(
    inputs,
    inputs.sum(axis=1, keepdims=True),
    epochs=4,
    verbose=0,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2, steps_per_epoch=2),
    ],
).history
weights = hvd.allgather(np.concatenate([each.ravel() for each in model.get_weights()])[None])
print("difference", np.abs(weights - weights[0]).max())
print("first loss", history["loss"][0])
print("last loss", history["loss"][-1], flush=True)
