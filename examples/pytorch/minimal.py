"""The shortest distributed training: horovodrun -np 2 python examples/pytorch/minimal.py."""

import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())  # every rank has its own data
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(100):
    inputs = torch.randn(32, 10)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if hvd.rank() == 0 and step % 20 == 19:
        print(f"step {step + 1}  loss {loss.item():.4f}")
