"""Elastic training with PyTorch: what survives a change of the job's ranks, and `run`."""

from horovod.common.elastic import run
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]
