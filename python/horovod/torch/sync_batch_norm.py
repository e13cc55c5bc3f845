"""Batch normalisation over the batches of all ranks, which may have different sizes.

Mean and variance are combined from each rank's count, mean and variance, in one allgather; the
backward pass needs two sums over all ranks, in one allreduce. The gradients of weight and bias
stay this rank's: the optimizer combines them like all others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common.basics import size
from horovod.common.handles import synchronize
from horovod.common.util import Sum
from horovod.torch.ops.allgather import allgather_async
from horovod.torch.ops.allreduce import allreduce_async as allreduce_async
from horovod.torch.ops.allreduce import allreduce_async_


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm1d`, `2d` and `3d` in one, as if the batches of all ranks were one batch.

    Evaluation uses the running statistics and no communication. A rank may have an empty batch.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input, got {input.dim()}D input")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises over all ranks when training, else as a single process would."""
        self._check_input_dim(input)
        uses_running_statistics = not self.training and self.running_mean is not None
        if uses_running_statistics or size() == 1:
            return super().forward(input)
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps)
        if self.training and self.running_mean is not None:
            self._track(mean, variance, count)
        return output

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / (count - 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)


class _Normalize(torch.autograd.Function):
    """Returns the output, and mean, variance and number of values of each channel."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        eps: float,
    ) -> tuple[torch.Tensor, ...]:
        values = _computable(input)
        count, mean, variance = _combined_statistics(values)
        inverse_deviation = torch.rsqrt(variance + eps)
        scale = inverse_deviation if weight is None else inverse_deviation * weight
        centred = values - _of_channels(mean, input)
        output = centred * _of_channels(scale, input)
        if bias is not None:
            output = output + _of_channels(bias, input)
        ctx.save_for_backward(input, weight, mean, inverse_deviation, count)
        ctx.mark_non_differentiable(mean, variance, count)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        input, weight, mean, inverse_deviation, count = ctx.saved_tensors
        grad = _computable(grad_outputs[0])
        centred = _computable(input) - _of_channels(mean, input)
        dimensions = _all_but_channels(input)
        sums = torch.stack([grad.sum(dimensions), (grad * centred).sum(dimensions)])
        grad_input = grad_weight = grad_bias = None
        if weight is not None:
            grad_weight = (sums[1] * inverse_deviation).to(weight.dtype)
            grad_bias = sums[0].to(weight.dtype)
        if ctx.needs_input_grad[0]:
            handle = allreduce_async_(sums.clone(), name="sync_batch_norm.sums", op=Sum)
            mean_grad, mean_product = synchronize(handle) / count
            slope = mean_product * inverse_deviation * inverse_deviation
            scale = inverse_deviation if weight is None else inverse_deviation * weight
            grad = grad - _of_channels(mean_grad, input) - centred * _of_channels(slope, input)
            grad_input = (grad * _of_channels(scale, input)).to(input.dtype)
        return grad_input, grad_weight, grad_bias, None


def _combined_statistics(
    values: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Count, mean and variance of each channel over all ranks."""
    channels = values.shape[1]
    own_count = values.numel() // channels if channels else 0
    if own_count:
        own_variance, own_mean = torch.var_mean(values, _all_but_channels(values), correction=0)
    else:
        own_variance = own_mean = values.new_zeros(channels)
    row = torch.cat([values.new_tensor([own_count]), own_mean, own_variance])
    rows = synchronize(allgather_async(row.unsqueeze(0), name="sync_batch_norm.statistics"))
    counts = rows[:, :1]
    means, variances = rows[:, 1:].split(channels, dim=1)
    count = counts.sum()
    if count <= 1:
        raise ValueError(
            "expected more than 1 value per channel over all ranks when training, "
            f"got {int(count)} with this rank's input of size {tuple(values.shape)}"
        )
    mean = (counts * means).sum(0) / count
    variance = (counts * (variances + (means - mean) ** 2)).sum(0) / count
    return count, mean, variance


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """Statistics of 16-bit numbers need more bits than those have."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _all_but_channels(tensor: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(tensor.dim()) if dimension != 1]


def _of_channels(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Shapes one value for each channel so that it applies to a batch."""
    return values.view(1, -1, *[1] * (like.dim() - 2))
