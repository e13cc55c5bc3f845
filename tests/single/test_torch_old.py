"""What an old PyTorch does not have is done without. PyTorch 2.0 is made of the one that is
installed, by taking away what came later.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

TRAIN_WITH_PYTORCH_2_0 = """
import sys

import torch
import torch._dynamo

def missing(parameter):
    raise AttributeError("nbytes")

torch.nn.Parameter.nbytes = property(missing)
if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    del torch.Tensor.register_post_accumulate_grad_hook
if not hasattr(torch._utils, "is_compiling"):
    torch._utils.is_compiling = lambda: False
compiler = torch.__dict__.pop("compiler", None)
loaded = sys.modules.pop("torch.compiler", None)
sys.modules["torch.compiler"] = None

import horovod.torch as hvd

# PyTorch itself goes on with what it has.
torch.compiler = compiler
sys.modules["torch.compiler"] = loaded

hvd.init()
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
model(torch.ones(1, 2)).sum().backward()
assert optimizer._is_combining(), "no hook was called"
optimizer.step()
print("trained", hvd.allreduce(torch.ones(1)).item())
"""


def test_pytorch_2_0_is_enough() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN_WITH_PYTORCH_2_0],
        capture_output=True,
        text=True,
        timeout=100,
        # One rank combines nothing, unless there may be more later.
        env={**os.environ, "HOROVOD_ELASTIC": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "trained 1.0" in done.stdout
