"""A step that is always the same needs no negotiation."""

from __future__ import annotations

import numpy as np

import horovod.numpy as hvd


def step(number: int) -> None:
    """Three sums, one of them too large to be sent inside a notice."""
    ones = [np.full(length, hvd.rank() + number, np.float64) for length in (1, 70_000, 9)]
    handles = [
        hvd.allreduce_async(one, name=f"schedule.{i}", op=hvd.Sum) for i, one in enumerate(ones)
    ]
    expected = sum(rank + number for rank in range(hvd.size()))
    for handle in handles:
        assert (hvd.synchronize(handle) == expected).all()


def test_like_steps_send_no_negotiation_messages() -> None:
    for number in range(10):
        step(number)
    before = hvd.counters()
    for number in range(30):
        step(number)
    after = hvd.counters()
    # No rank is further than the next step.
    step(0)
    assert after["negotiation_messages"] == before["negotiation_messages"]
    assert after["scheduled_operations"] > before["scheduled_operations"]
    assert after["ready_notices"] > before["ready_notices"] or hvd.size() == 1


def test_another_tensor_ends_the_schedule_and_all_results_are_right() -> None:
    for number in range(40):
        step(number)
        if number % 9 == 8:
            extra = hvd.allreduce(np.ones(2), name=f"schedule.extra.{number}", op=hvd.Sum)
            assert (extra == hvd.size()).all()
            assert hvd.counters()["negotiated_operations"] > 0
