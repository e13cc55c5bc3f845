"""Callbacks for training with `horovod.tensorflow.keras`, as `horovod._keras` defines them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod._keras import callbacks as _impl
from horovod._keras import learning_rate as _rates
from horovod._keras.callbacks import *  # noqa: F403
from horovod._keras.learning_rate import *  # noqa: F403
from horovod._keras.package import callback_classes
from horovod.common.util import is_version_greater_equal_than  # noqa: F401, upstream offers it

keras: Any = tf.keras

__all__: list[str] = []
__all__ += _impl.__all__
__all__ += _rates.__all__

globals().update(callback_classes(_impl, keras, __name__))
globals().update(callback_classes(_rates, keras, __name__))
