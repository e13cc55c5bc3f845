"""HOROVOD_DETERMINISTIC=1: the same bits from run to run, whatever happens to be ready together."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

# Sums of three addends depend on their order, and the order depends on an element's place in a
# fused buffer. The tensors are submitted in a different order and timing in every run.
SCRIPT = """
import hashlib, random, sys, time
import numpy as np
import horovod.numpy as hvd

hvd.init()
values = np.random.default_rng(hvd.rank())
tensors = {f"t{i}": values.standard_normal(1 + 977 * i).astype(np.float32) for i in range(24)}
pauses = random.Random(int(sys.argv[1]) * 10 + hvd.rank())
names = sorted(tensors)
random.Random(sys.argv[1]).shuffle(names)
handles = {}
for name in names:
    handles[name] = hvd.allreduce_async(tensors[name], name=name, op=hvd.Average)
    if pauses.random() < 0.3:
        time.sleep(pauses.random() / 500)
digest = hashlib.sha256()
for name in sorted(handles):
    digest.update(hvd.synchronize(handles[name]).tobytes())
print("digest", digest.hexdigest())
"""

# Adam's second moments make differences of one bit grow.
TRAINING = """
import hashlib, sys, time
import torch
import horovod.torch as hvd

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(20, 20) for _ in range(6)])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
torch.manual_seed(hvd.rank())
for step in range(50):
    if (step + int(sys.argv[1])) % 7 == hvd.rank():
        time.sleep(0.002)
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(bytes(parameter.detach().view(torch.uint8).flatten().tolist()))
print("digest", digest.hexdigest())
"""


def digests(seed: int, script: str = SCRIPT, ranks: int = 3) -> set[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks)]
    job = subprocess.run(
        [*command, sys.executable, "-c", script, str(seed)],
        env={**os.environ, "HOROVOD_DETERMINISTIC": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert job.returncode == 0, job.stderr
    found = re.findall(r"digest (\w+)", job.stdout)
    assert len(found) == ranks
    return set(found)


def test_results_are_the_same_bits_on_all_ranks_and_in_all_runs() -> None:
    found = set().union(*(digests(seed) for seed in range(4)))
    assert len(found) == 1


@pytest.mark.parametrize("ranks", [2, 4])
def test_trained_weights_are_the_same_bits_in_two_runs(ranks: int) -> None:
    pytest.importorskip("torch")
    assert len(digests(0, TRAINING, ranks) | digests(1, TRAINING, ranks)) == 1
