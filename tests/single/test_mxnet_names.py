"""The public names of `horovod.mxnet` and how they are called, and what is said if MXNet is
missing, broken or used too early.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

mx = pytest.importorskip("mxnet")

from upstream_names import MXNET, missing  # noqa: E402

import horovod.mxnet as hvd  # noqa: E402
from horovod.common import build, framework_ops  # noqa: E402

ON_SET = "process_set=GLOBAL"
NAMED = "name=None, priority=0"
SCALED = "prescale_factor=1.0, postscale_factor=1.0"
REDUCED = f"average=None, {NAMED}, {SCALED}, {ON_SET}, op=None"
SIGNATURES = {
    "allreduce": f"tensor, {REDUCED}",
    "allreduce_": f"tensor, {REDUCED}",
    "grouped_allreduce": f"tensors, {REDUCED}",
    "grouped_allreduce_": f"tensors, {REDUCED}",
    "allgather": f"tensor, {NAMED}, {ON_SET}",
    "grouped_allgather": f"tensors, {NAMED}, {ON_SET}",
    "broadcast": f"tensor, root_rank, {NAMED}, {ON_SET}",
    "broadcast_": f"tensor, root_rank, {NAMED}, {ON_SET}",
    "alltoall": f"tensor, splits=None, {NAMED}, {ON_SET}",
    "reducescatter": f"tensor, op=0, {NAMED}, {ON_SET}, {SCALED}",
    "grouped_reducescatter": f"tensors, op=0, {NAMED}, {ON_SET}, {SCALED}",
    "broadcast_object": "obj, root_rank=0, name=None",
    "allgather_object": "obj, name=None",
    "broadcast_parameters": "params, root_rank=0, prefix=None",
    "DistributedOptimizer": f"optimizer, gradient_predivide_factor=1.0, num_groups=0, {ON_SET}",
    "DistributedTrainer": (
        "params, optimizer, optimizer_params=None, compression=NONE, "
        f"gradient_predivide_factor=1.0, prefix=None, num_groups=0, {ON_SET}"
    ),
    "init": "comm=None, process_sets=None",
}


def shown(parameter: inspect.Parameter) -> str:
    known: dict[Any, str] = {hvd.Compression.none: "NONE", hvd.global_process_set: "GLOBAL"}
    if parameter.default is parameter.empty:
        return parameter.name
    default = parameter.default
    is_known = default is hvd.Compression.none or default is hvd.global_process_set
    return f"{parameter.name}={known[default] if is_known else default}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    parameters = inspect.signature(getattr(hvd, name)).parameters.values()
    assert ", ".join(map(shown, parameters)) == SIGNATURES[name]


@pytest.mark.parametrize("module", MXNET)
def test_every_name_of_upstream_exists(module: str) -> None:
    assert missing(module, MXNET[module]) == []


def test_what_mxnet_does_not_have() -> None:
    for name in ("join", "barrier", "poll", "synchronize", "elastic"):
        assert not hasattr(hvd, name), name


def test_it_is_available() -> None:
    build.extension_available.cache_clear()
    assert build.extension_available("mxnet")


def output_of(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "mxnet":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
WITHOUT_SYMBOL = """
from horovod.common import framework_ops
def refuse(path, naive):
    raise ImportError("this MXNet has no `MXEnginePushAsyncND`")
framework_ops.mxnet_load = refuse
"""
IMPORT = "try:\n    import horovod.mxnet\nexcept ImportError as error:\n    print(error)"


def test_a_missing_mxnet_is_explained() -> None:
    assert "pip install mxnet" in output_of(BLOCK + IMPORT)


def test_an_unusable_mxnet_is_explained() -> None:
    said = output_of(WITHOUT_SYMBOL + IMPORT)
    assert f"cannot use MXNet {mx.__version__}" in said and "MXEnginePushAsyncND" in said
    assert "tested: 1.8.0, 1.9.1 and 2.0.0b1" in said


def test_the_library_must_be_loaded() -> None:
    code = "from horovod.common.framework_ops import mxnet_load\n"
    code += "try:\n    mxnet_load('/nowhere/libmxnet.so', False)\n"
    code += "except ImportError as error:\n    print(error)\n"
    assert "`/nowhere/libmxnet.so` is not loaded; import mxnet before" in output_of(code)


def test_the_version_is_mxnets() -> None:
    number = framework_ops.mxnet_load(mx.base._LIB._name, False)
    numbers = mx.__version__.split("b")[0].split(".")[:3]
    assert number == int(numbers[0]) * 10000 + int(numbers[1]) * 100 + int(numbers[2])


# One thread works on MXNet's queue with priorities; it is held up while operations are pushed.
PRIORITIES = """
import ctypes, json, os, sys, threading
import mxnet as mx
import horovod.mxnet as hvd

hvd.init()
hvd.start_timeline(sys.argv[1])
go, held = threading.Event(), threading.Event()
Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def hold(context, parameter):
    held.set()
    go.wait(20)
work = Work(hold)
class Context(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
prioritized = ctypes.c_int(3)
gate = mx.nd.ones((1,))
gate.wait_to_read()
handles = (ctypes.c_void_p * 1)(gate.handle.value)
mx.base.check_call(mx.base._LIB.MXEnginePushSyncND(
    work, None, None, ctypes.byref(Context(1, 0)), None, 0, handles, 1,
    ctypes.byref(prioritized), 100, b"hold"))
held.wait(20)
tensors = {name: mx.nd.ones((4,)) for name in ("low", "high", "middle")}
for tensor in tensors.values():
    tensor.wait_to_read()
for name, priority in (("low", -10), ("high", 10), ("middle", 0)):
    hvd.allreduce_(tensors[name], name=name, priority=priority)
go.set()
mx.nd.waitall()
hvd.stop_timeline()
"""


def test_the_highest_priority_is_reduced_first(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_CPU_PRIORITY_NTHREADS", "1")
    monkeypatch.setenv("HOROVOD_TIMELINE", "DYNAMIC")
    file = tmp_path / "timeline.json"
    done = subprocess.run(
        [sys.executable, "-c", PRIORITIES, str(file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    places = {name: text.index(f"horovod_allreduce.{name}") for name in ("low", "middle", "high")}
    assert sorted(places, key=places.get) == ["high", "middle", "low"]  # type: ignore[arg-type]
