"""Every test here is run by all ranks of a job: `horovodrun -np 2 pytest tests/parallel`.

Each test is a job of its own, from init to shutdown. A rank where the test passed waits for the
others before it leaves. A rank where it failed leaves at once, which ends the test on the others
too; the next test starts with all ranks in step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator

import pytest
from frameworks import FRAMEWORKS, Framework

from horovod.common import basics, collectives
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import global_process_set

PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator:
    outcome = yield
    if call.when == "call":
        item.stash[PASSED] = outcome.get_result().passed


@pytest.fixture(autouse=True)
def job(request: pytest.FixtureRequest) -> Iterator[None]:
    basics.init()
    yield
    if basics.is_initialized() and request.node.stash.get(PASSED, False):
        with contextlib.suppress(HorovodInternalError):
            collectives.barrier(global_process_set)
    basics.shutdown()


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.name)
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


@pytest.fixture
def several_ranks() -> None:
    """For tests about what happens between ranks."""
    if basics.size() == 1:
        pytest.skip("needs at least two ranks")
