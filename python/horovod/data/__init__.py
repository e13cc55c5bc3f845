"""Data loaders that prepare batches while the model computes, for every framework."""

from __future__ import annotations

from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
