"""Elastic training, whose names exist already so that scripts can be imported.

Each of them says that it cannot be used yet.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["ElasticSampler", "TorchState", "run"]


def _not_yet(name: str) -> NoReturn:
    raise NotImplementedError(
        f"horovod.torch.elastic.{name} cannot be used yet: this version has no elastic training; "
        "start the job with a fixed number of processes, without elastic.run"
    )


class TorchState:
    """Model, optimizer and counters that survive a change of the job's hosts."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        _not_yet("TorchState")


class ElasticSampler:
    """Shares out the part of a data set that has not been processed yet."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        _not_yet("ElasticSampler")


def run(func: Any) -> Any:
    """Makes a training function continue after the job's hosts have changed."""
    _not_yet("run")
