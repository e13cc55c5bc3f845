"""How an operator of PyTorch is made of Python functions, with every version from 2.0 on.

`torch.compile` cannot look into a collective, so each has an operator, `torch.ops.horovod.*`, for
compiled graphs. Arguments are what a graph can hold, hence numbers instead of process sets.

An operator does something with tensors, is described to the compiler by a function that only tells
shapes, and may have a gradient. PyTorch has all of this from 2.4 on. Older versions get the same
from their dispatcher, except that a result's shape must follow from the shapes of the arguments:
an operator for which it does not (`KNOWS_NEW_SIZES`) would be of no use in a graph there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

if hasattr(getattr(torch, "compiler", None), "is_compiling"):
    from torch.compiler import is_compiling as is_compiling
else:
    from torch._utils import is_compiling as is_compiling

KNOWS_NEW_SIZES = hasattr(torch.library, "custom_op")
"""Whether a graph can contain tensors whose sizes are known only when it runs.

If not, an operation with such a result breaks the graph in two.
"""

_kept: dict[str, Any] = {}
"""What registers an operator, by name; the operator goes when this goes."""

_OLD = None if hasattr(torch.library, "custom_op") else torch.library.Library("horovod", "DEF")


def operator(schema: str) -> Callable[[Callable[..., Any]], Any]:
    """Makes a function an operator of `torch.ops.horovod`. It writes into no argument.

    The schema begins with the operator's name. It is written out, so that it is the same whatever
    Python's annotations look like.
    """
    name, _, _ = schema.partition("(")

    def make(function: Callable[..., Any]) -> Any:
        if _OLD is None:
            definition = torch.library.custom_op(
                f"horovod::{name}", function, mutates_args=(), schema=schema.removeprefix(name)
            )
            _kept[name] = definition
        else:
            _OLD.define(schema)
            for device in ("CPU", "CUDA"):
                _OLD.impl(name, function, device)
        return getattr(torch.ops.horovod, name)

    return make


def describe(operator: Any, result: Callable[..., Any]) -> None:
    """Tells the compiler what an operator returns, with tensors that have no content."""
    if _OLD is None:
        _kept[_name(operator)].register_fake(result)
    else:
        _OLD.impl(_name(operator), result, "Meta")


def differentiate(
    operator: Any, backward: Callable[..., Any], keep: Callable[[Any, Any, Any], None]
) -> None:
    """Gives an operator a gradient; its first argument, a tensor or a list of them, has it."""
    if _OLD is None:
        _kept[_name(operator)].register_autograd(backward, setup_context=keep)
    else:
        _OLD.impl(_name(operator), _old_kernel(operator, backward, keep), "Autograd")


def like(tensor: torch.Tensor, rows: Any = None) -> torch.Tensor:
    """A contiguous tensor like another one, perhaps with another number of rows."""
    shape = list(tensor.shape) if rows is None else [rows, *tensor.shape[1:]]
    return tensor.new_empty(shape)


def new_size() -> Any:
    """A size that is known only when the graph runs."""
    if not KNOWS_NEW_SIZES:
        raise NotImplementedError(
            f"PyTorch {torch.__version__} cannot compile an operation whose result has a size that "
            "is not known in advance; PyTorch 2.4 can"
        )
    return torch.library.get_ctx().new_dynamic_size()


def _name(operator: Any) -> str:
    return operator._qualified_op_name.removeprefix("horovod::")


def _old_kernel(
    operator: Any, backward: Callable[..., Any], keep: Callable[[Any, Any, Any], None]
) -> Callable[..., Any]:
    """What the dispatcher of an old PyTorch calls first if gradients may be wanted."""

    class Differentiable(torch.autograd.Function):
        """The operator with its gradient. Autograd knows only tensors that are arguments."""

        @staticmethod
        def forward(ctx: Any, is_list: bool, others: Any, *tensors: torch.Tensor) -> Any:
            arguments = (list(tensors) if is_list else tensors[0], *others)
            with torch._C._AutoDispatchBelowAutograd():
                output = operator(*arguments)
            ctx.is_list = is_list
            keep(ctx, arguments, output)
            return tuple(output) if isinstance(output, (list, tuple)) else output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if ctx.is_list:
                return None, None, *backward(ctx, list(grads))[0]
            return None, None, backward(ctx, *grads)[0]

    def kernel(first: Any, *others: Any) -> Any:
        is_list = isinstance(first, (list, tuple))
        output = Differentiable.apply(is_list, others, *(first if is_list else [first]))
        return list(output) if is_list else output

    return kernel
