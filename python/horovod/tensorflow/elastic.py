"""Elastic training, whose names exist already so that scripts can be imported.

Each of them says that it cannot be used yet.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def _not_yet(name: str) -> NoReturn:
    raise NotImplementedError(
        f"horovod.tensorflow.elastic.{name} cannot be used yet: this version has no elastic "
        "training; start the job with a fixed number of processes, without elastic.run"
    )


class TensorFlowState:
    """Variables and counters that survive a change of the job's hosts."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        _not_yet("TensorFlowState")


class TensorFlowKerasState:
    """Model, optimizer and counters that survive a change of the job's hosts."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any):
        _not_yet("TensorFlowKerasState")


def run(func: Any) -> Any:
    """Makes a training function continue after the job's hosts have changed."""
    _not_yet("run")
