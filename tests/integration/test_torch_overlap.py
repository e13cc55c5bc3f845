"""Gradients travel while the backward pass goes on, as the timeline shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The backward pass of the first layer begins with an operation of its own, which marks in the
# timeline when the last gradients do not exist yet. The barrier before it lets the engine take up
# what was submitted so far.
SCRIPT = """
import torch
import horovod.torch as hvd

class Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, grad):
        hvd.barrier()
        hvd.broadcast(torch.ones(1), 0, name="mark")
        return grad

hvd.init()
torch.manual_seed(1)
first, second, third = (torch.nn.Linear(300, 300) for _ in range(3))
model = torch.nn.ModuleList([first, second, third])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
third(second(Mark.apply(first(torch.randn(4, 300))))).sum().backward()
optimizer.step()
"""


def intervals(events: list[dict[str, Any]], operation: str) -> dict[str, tuple[float, float]]:
    """When an operation began and ended, by the name of its tensor."""
    labels = [event for event in events if event.get("name") == "process_name"]
    tensors = {label["pid"]: label["args"].get("name") for label in labels}
    found: dict[str, tuple[float, float]] = {}
    depth: dict[int, list[tuple[str, float]]] = {}
    for event in events:
        stack = depth.setdefault(event.get("pid", -1), [])
        if event["ph"] == "B":
            stack.append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            name, start = stack.pop()
            if name == operation:
                found[tensors[event["pid"]]] = (start, event["ts"])
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_reductions_begin_before_the_last_gradient_exists(tmp_path: Path, ranks: int) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "timeline.json"
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks)]
    job = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT],
        env={**os.environ, "HOROVOD_TIMELINE": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert job.returncode == 0, job.stderr
    events = json.loads(path.read_text())
    (mark,) = intervals(events, "BROADCAST").values()
    reductions = intervals(events, "ALLREDUCE")
    early = {name for name, (start, _) in reductions.items() if start < mark[0]}
    assert early >= {"allreduce.2.weight", "allreduce.1.weight"}
    late = {"allreduce.0.weight", "allreduce.0.bias"}
    assert late <= reductions.keys() - early
