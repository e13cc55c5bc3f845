"""Elastic training with PyTorch: what survives a change of the job's ranks, and `run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horovod.common import elastic
from horovod.common.basics import init, shutdown
from horovod.common.elastic import run_fn as run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `func(state, ...)` go on after ranks were lost or hosts have changed."""
    return elastic.run(func, reset=_reset)


def _reset() -> None:
    shutdown()
    init()
