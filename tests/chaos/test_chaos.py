"""Every kind of fault once, on one of its transports: a short and seeded part of `chaos.py`."""

from __future__ import annotations

import pytest
from campaign import Fault, commit
from faults import KINDS, is_possible

SEED = 7


def selection() -> list[Fault]:
    """Each kind on one of its transports in turn, with two or three ranks."""
    faults = []
    for index, (name, kind) in enumerate(KINDS.items()):
        transport = kind.transports[index % len(kind.transports)]
        faults.append(Fault(name, SEED + index, transport, 2 + index // 2 % 2))
    return faults


@pytest.mark.parametrize("fault", selection(), ids=lambda fault: f"{fault.kind}-{fault.transport}")
def test_job_fails_with_the_culprit_named_or_finishes_with_right_numbers(fault: Fault) -> None:
    if not is_possible(KINDS[fault.kind]):
        pytest.skip("needs namespaces of its own")
    assert commit(fault) is None
