"""Horovod for MXNet: not in this version yet."""

from horovod.common.not_yet import explain

raise ImportError(explain("mxnet"))
