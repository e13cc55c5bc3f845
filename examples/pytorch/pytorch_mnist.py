"""Trains a convolutional network on MNIST or Fashion-MNIST with every process taking part.

    horovodrun -np 2 python examples/pytorch/pytorch_mnist.py

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mnist_data
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the logarithms of the probabilities of the ten classes."""
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank")
    parser.add_argument("--test-batch-size", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate of one rank")
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--log-interval", type=int, default=50, help="steps between lines")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    parser.add_argument(
        *["--data", "--data-dir"],
        type=Path,
        default=mnist_data.INSTALLED,
        help="directory with IDX files; without any, images are generated",
    )
    parser.add_argument("--generated-images", type=int, default=20000, help="if there is no data")
    return parser.parse_args()


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    epoch: int,
    log_interval: int,
) -> None:
    model.train()
    # Horovod: the sampler needs the epoch to shuffle alike on all ranks.
    loader.sampler.set_epoch(epoch)
    for step, (images, labels) in enumerate(loader, start=1):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        if hvd.rank() == 0 and step % log_interval == 0:
            print(f"epoch {epoch}  step {step}/{len(loader)}  loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def test(model: nn.Module, loader: DataLoader) -> tuple[float, float]:
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64)
    for images, labels in loader:
        output = model(images)
        loss = F.nll_loss(output, labels, reduction="sum")
        correct = (output.argmax(dim=1) == labels).sum()
        totals += torch.tensor([loss.item(), correct.item(), len(labels)])
    # Horovod: every rank has tested its part; add them up.
    loss_sum, correct_sum, count = hvd.allreduce(totals, name="test", op=hvd.Sum).tolist()
    return loss_sum / count, correct_sum / count


def main() -> None:
    arguments = parse_arguments()
    # Horovod: join the job.
    hvd.init()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)

    train_data = mnist_data.load(arguments.data, True, arguments.generated_images)
    test_data = mnist_data.load(arguments.data, False, arguments.generated_images // 5)
    # Horovod: every rank gets its own part of the data.
    train_sampler = DistributedSampler(train_data, num_replicas=hvd.size(), rank=hvd.rank())
    test_sampler = DistributedSampler(test_data, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = DataLoader(train_data, arguments.batch_size, sampler=train_sampler)
    test_loader = DataLoader(test_data, arguments.test_batch_size, sampler=test_sampler)

    model = Net()
    # Horovod: a step uses size() times as many images, so it may be that much longer. Adasum finds
    # the right length by itself.
    lr = arguments.lr * (1 if arguments.use_adasum else hvd.size())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=arguments.momentum)
    # Horovod: start equal on all ranks, and stay equal by averaging gradients.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if arguments.use_adasum else hvd.Average,
        gradient_predivide_factor=arguments.gradient_predivide_factor,
    )

    for epoch in range(1, arguments.epochs + 1):
        train(model, optimizer, train_loader, epoch, arguments.log_interval)
        loss, accuracy = test(model, test_loader)
        if hvd.rank() == 0:
            print(f"epoch {epoch}  test loss {loss:.4f}  accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
