"""Every test here is run by all ranks of a job: `horovodrun -np 2 pytest tests/parallel`.

Each test is a job of its own, from init to shutdown. A rank where the test passed waits for the
others before it leaves. A rank where it failed leaves at once, which ends the test on the others
too; the next test starts with all ranks in step. Process sets can be added and removed in tests
marked with `dynamic_process_sets`.

TensorFlow's tests and those of Keras are files that are named on the command line, so that nothing
else waits for their import: `horovodrun -np 2 pytest tests/parallel/test_tensorflow_*.py`.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator, Iterator

import pytest
from frameworks import FRAMEWORKS, Framework

from horovod.common import basics, collectives
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import global_process_set

collect_ignore_glob = ["test_jax_*.py", "test_keras_*.py", "test_tensorflow_*.py"]

PASSED = pytest.StashKey[bool]()
DYNAMIC = "dynamic_process_sets"


# A job in the background of a script starts with Ctrl-C ignored; tests interrupt themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{DYNAMIC}: init allows process sets to change later")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator:
    outcome = yield
    if call.when == "call":
        item.stash[PASSED] = outcome.get_result().passed


@pytest.fixture(autouse=True)
def job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "0")
    dynamic = request.node.get_closest_marker(DYNAMIC) is not None
    basics.init(process_sets="dynamic" if dynamic else None)
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


@pytest.fixture
def three_ranks() -> None:
    """For tests about sets of several ranks that are not all ranks."""
    if basics.size() < 3:
        pytest.skip("needs at least three ranks")
