"""Horovod for Spark: not in this version yet."""

from horovod.common.not_yet import explain

raise ImportError(explain("spark"))
