"""A sampler that shares out what is left of an epoch among the ranks that there are now."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch.utils.data

from horovod.common.basics import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Gives each rank its part of what has not been processed in this epoch.

    `record_batch` after each step says what has been processed; `set_epoch` at the end of an epoch
    (not at its beginning, which would forget what a restored state says) starts the next one.
    Some samples come twice if the rest does not divide by the number of ranks.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch, in which nothing has been processed."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that each rank has processed so many samples. Takes effect with `reset`."""
        self.processed_num += batch_size * self.num_replicas

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """This rank's samples of one batch."""
        return self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    def state_dict(self) -> dict[str, int]:
        """How far the training is; the same on all ranks."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Goes to where a training was, and shares out the rest."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares out what is left among the ranks that there are now."""
        self.num_replicas = size()
        self.rank = rank()
        everything = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(everything)
        rest = everything[self.processed_num :]
        self.remaining_indices = rest
        self.num_samples = -(-len(rest) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        padded = itertools.islice(itertools.cycle(rest), self.total_size)
        self.indices = list(padded)[self.rank :: self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
