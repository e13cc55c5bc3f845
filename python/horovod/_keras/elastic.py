"""Elastic training, whose names exist already so that scripts can be imported.

Each of them says that it cannot be used yet.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


def _not_yet(name: str) -> NoReturn:
    raise NotImplementedError(
        f"elastic.{name} of Horovod for Keras cannot be used yet: this version has no elastic "
        "training; start the job with a fixed number of processes, without elastic.run"
    )


class KerasState:
    """Model, optimizer and counters that survive a change of the job's hosts."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        _not_yet("KerasState")


class CommitStateCallback:
    """Commits the state every few batches."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        _not_yet("CommitStateCallback")


class UpdateBatchStateCallback:
    """Keeps the number of the batch in the state."""

    def __init__(self, state: Any) -> None:
        _not_yet("UpdateBatchStateCallback")


class UpdateEpochStateCallback:
    """Keeps the number of the epoch in the state."""

    def __init__(self, state: Any) -> None:
        _not_yet("UpdateEpochStateCallback")


def run(func: Any) -> Any:
    """Makes a training function continue after the job's hosts have changed."""
    _not_yet("run")
