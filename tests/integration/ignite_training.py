"""A training with PyTorch-Ignite over Horovod, as its documentation has it. Under `horovodrun` each
rank calls it; with an argument, Ignite starts as many ranks itself, by `horovod.run()`.
"""

from __future__ import annotations

import sys
from typing import Any

import ignite.distributed as idist
import torch
from ignite.engine import Engine


def train(local_rank: int, epochs: int) -> None:
    """Every rank has other data; all end with the same model, and agree on sums."""
    rank = idist.get_rank()
    torch.manual_seed(rank)
    model = idist.auto_model(torch.nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
    data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)]

    def step(engine: Engine, batch: Any) -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    Engine(step).run(data, max_epochs=epochs)
    weights = idist.all_gather(model.weight.detach())
    assert all(torch.equal(row, weights[0]) for row in weights), weights
    assert idist.all_reduce(rank + 1.0) == sum(range(1, idist.get_world_size() + 1))
    assert idist.all_reduce(float(rank), op="MAX") == idist.get_world_size() - 1
    idist.barrier()
    print(f"ignite: rank {rank} of {idist.get_world_size()} over {idist.backend()}", flush=True)


if __name__ == "__main__":
    ranks = {"nproc_per_node": int(sys.argv[1])} if len(sys.argv) > 1 else {}
    with idist.Parallel(backend="horovod", **ranks) as parallel:
        parallel.run(train, 2)
