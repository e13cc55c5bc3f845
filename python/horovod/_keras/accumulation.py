"""Steps that apply nothing yet.

Optimizers of Keras 3 can accumulate gradients themselves (`gradient_accumulation_steps`); only what
a step applies is reduced then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def count_step(optimizer: Any) -> None:
    """Counts a step that applies nothing; a loss scale leaves counting to the optimizer in it."""
    getattr(optimizer, "inner_optimizer", optimizer)._iterations.assign_add(1)


def reduce_accumulated(
    optimizer: Any,
    gradients: list[Any],
    variables: list[Any],
    reduce: Callable[[list[Any], list[Any]], list[Any]],
    cond: Callable[..., Any],
) -> list[Any]:
    """What to hand to the optimizer's `apply` instead of this rank's gradients.

    When the step is due that is the reduced sum of the accumulated gradients and these, and the
    accumulators are emptied; until then it is the gradients as they are.
    """
    if not optimizer.built:
        optimizer.build(variables)
    places = [place for place, gradient in enumerate(gradients) if gradient is not None]
    sums = [
        optimizer._accumulated_gradients[optimizer._get_variable_index(variables[place])]
        for place in places
    ]
    # Accumulators hold gradients of the loss, `apply` is given those of the scaled loss.
    scale = optimizer.loss_scale_factor or 1

    def due() -> list[Any]:
        totals = [gradients[place] + total.value * scale for place, total in zip(places, sums)]
        reduced = reduce(totals, [variables[place] for place in places])
        for total in sums:
            total.assign(total.value * 0)
        return list(reduced)

    def not_due() -> list[Any]:
        return [gradients[place] * 1 for place in places]

    steps = optimizer.gradient_accumulation_steps
    is_due = (optimizer._iterations.value + 1) % steps == 0
    results = list(gradients)
    for place, gradient in zip(places, cond(is_due, due, not_due)):
        results[place] = gradient
    return results
