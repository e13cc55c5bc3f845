"""Trains ResNet-50 on folders of images, with warm-up, checkpoints and resumption.

    horovodrun -np 4 python examples/pytorch/pytorch_imagenet_resnet50.py \\
        --train-dir imagenet/train --val-dir imagenet/validation

The lines marked "Horovod:" are all that differs from training in one process.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import models
import torch
import torch.nn.functional as F
from image_folder import ImageFolder
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train-dir", type=Path, default=Path("imagenet/train"))
    parser.add_argument("--val-dir", type=Path, default=Path("imagenet/validation"))
    parser.add_argument("--checkpoint-format", default="checkpoint-{epoch}.pth.tar")
    parser.add_argument("--model", default="resnet50", help="of torchvision; or resnet50, small")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=32, help="images per pass and rank")
    parser.add_argument("--val-batch-size", type=int, default=32)
    parser.add_argument("--batches-per-allreduce", type=int, default=1, help="passes per step")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--base-lr", type=float, default=0.0125, help="learning rate of one rank")
    parser.add_argument("--warmup-epochs", type=float, default=5)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", type=float, default=0.00005, help="weight decay")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine by Adasum")
    parser.add_argument("--no-cuda", action="store_true", help="use the CPU even if there is a GPU")
    return parser.parse_args()


def loader(data: ImageFolder, batch_size: int, workers: int) -> DataLoader:
    # Horovod: every rank gets its own part of the data.
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    return DataLoader(data, batch_size, sampler=sampler, num_workers=workers)


def learning_rate(epoch: float, warmup: float, ranks: int) -> float:
    """From the rate of one rank up to that of all, then ten times less at 30, 60 and 80 epochs."""
    if epoch < warmup:
        return (epoch * (ranks - 1) / warmup + 1) / ranks
    return 0.1 ** sum(epoch >= limit for limit in (30, 60, 80))


def latest_epoch(checkpoint_format: str, epochs: int) -> int:
    existing = [e for e in range(1, epochs + 1) if Path(checkpoint_format.format(epoch=e)).exists()]
    return max(existing, default=0)


def train(model: Any, optimizer: Any, batches: DataLoader, epoch: int, options: Any) -> float:
    model.train()
    batches.sampler.set_epoch(epoch)
    # Horovod: a step uses this many times as many images; Adasum finds the right length itself.
    ranks = 1 if options.use_adasum else hvd.size()
    factor = ranks * options.batches_per_allreduce
    total = torch.zeros(2)
    for step, (images, labels) in enumerate(batches):
        exact_epoch = epoch + step / len(batches)
        for group in optimizer.param_groups:
            rate = learning_rate(exact_epoch, options.warmup_epochs, hvd.size())
            group["lr"] = options.base_lr * factor * rate
        loss = F.cross_entropy(model(images.to(options.device)), labels.to(options.device))
        (loss / options.batches_per_allreduce).backward()
        total += torch.tensor([loss.item(), 1.0])
        if (step + 1) % options.batches_per_allreduce == 0 or step + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()
    # Horovod: the mean over all ranks.
    loss_sum, count = hvd.allreduce(total, name="train loss", op=hvd.Sum).tolist()
    return loss_sum / count


@torch.no_grad()
def validate(model: Any, batches: DataLoader, options: Any) -> float:
    model.eval()
    total = torch.zeros(2)
    for images, labels in batches:
        output = model(images.to(options.device)).cpu()
        total += torch.tensor([(output.argmax(1) == labels).sum().item(), float(len(labels))])
    correct, count = hvd.allreduce(total, name="validation", op=hvd.Sum).tolist()
    return correct / count


def main() -> None:
    options = parse_arguments()
    # Horovod: join the job, and use the GPU of this process.
    hvd.init()
    # Horovod: the processes of a host share its cores.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    torch.manual_seed(options.seed)
    options.device = torch.device("cpu")
    if torch.cuda.is_available() and not options.no_cuda:
        options.device = torch.device("cuda", hvd.local_rank())
        torch.cuda.set_device(options.device)
    train_data = ImageFolder(options.train_dir, options.image_size, augment=True)
    validation_data = ImageFolder(options.val_dir, options.image_size, augment=False)
    train_batches = loader(train_data, options.batch_size, options.workers)
    validation_batches = loader(validation_data, options.val_batch_size, options.workers)

    model = models.create(options.model, len(train_data.classes)).to(options.device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=options.base_lr, momentum=options.momentum, weight_decay=options.wd
    )
    # Horovod: rank 0 looks for a checkpoint; the others follow.
    start = hvd.broadcast_object(latest_epoch(options.checkpoint_format, options.epochs))
    if start > 0 and hvd.rank() == 0:
        checkpoint = torch.load(options.checkpoint_format.format(epoch=start), weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    # Horovod: average gradients, once for several passes if asked for.
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=options.batches_per_allreduce,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    for epoch in range(start, options.epochs):
        loss = train(model, optimizer, train_batches, epoch, options)
        accuracy = validate(model, validation_batches, options)
        # Horovod: one rank reports and saves for all.
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}  loss {loss:.4f}  accuracy {accuracy:.1%}", flush=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, options.checkpoint_format.format(epoch=epoch + 1))


if __name__ == "__main__":
    main()
