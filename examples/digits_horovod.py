"""Train the digits with Horovod: the same model and data as digits_ddp.py, another way to share the work.

Run it under horovodrun or mpirun, or as a SageMaker job with the image horovod. What is Horovod's is marked; the rest is
digits_ddp.py's, which explains it.
"""

import argparse
from pathlib import Path

import horovod.torch as hvd
import torch
from digits_ddp import build_model, find_data, load_digits, parse_args, rate_factor, save
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BASE_BATCH = 16  # the batch that --lr is meant for


def train(
    model: nn.Module, data: TensorDataset, device: torch.device, args: argparse.Namespace
) -> None:
    """Train the model in place, each process on its own part of the data."""
    size, rank = hvd.size(), hvd.rank()
    batch = max(1, (args.batch_size or BASE_BATCH * size) // size)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]]
    sampler = DistributedSampler(data, size, rank, seed=args.seed)
    loader = DataLoader(data, batch_size=batch, sampler=sampler)

    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    # Horovod: the gradients of all processes are averaged in step(), by the parameters' names.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    # Horovod: all begin with rank 0's weights and momentum, also after a restart from a checkpoint.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    # The rate grows with the number of processes, and is warmed up to it.
    steps, warmup = args.epochs * len(loader), int(args.warmup_epochs * len(loader))
    scale = batch * size / BASE_BATCH
    schedule = LambdaLR(optimizer, lambda step: rate_factor(step, steps, warmup, scale))
    say(f"processes={size} device={device.type} process_batch={batch}")

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.detach()
        say(f"epoch={epoch + 1} train_loss={total.item() / len(loader):.4f}")


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Return the share of the whole test set that the model gets right, the same everywhere."""
    images, labels = (part[hvd.rank() :: hvd.size()].to(device) for part in data.tensors)
    right = (model(images).argmax(dim=1) == labels).sum()
    return float(hvd.allreduce(right, op=hvd.Sum)) / len(data)  # Horovod: over all processes


def say(line: str) -> None:
    """Print on rank 0 only; flushed, to be seen at once."""
    if hvd.rank() == 0:
        print(line, flush=True)


def main() -> None:
    """Train, test, save."""
    args = parse_args()
    train_data, test_data = load_digits(find_data(Path(args.data)), args.seed)
    hvd.init()  # Horovod: the processes meet
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", hvd.local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)  # Horovod: one GPU a process, by its number on this host
    torch.manual_seed(args.seed)
    model = build_model().to(device)
    train(model, train_data, device, args)
    accuracy = evaluate(model, test_data, device)
    if hvd.rank() == 0:
        save(model, args.model_dir)
    hvd.barrier()  # nobody leaves before the model is on disk
    say(f"test_accuracy={accuracy:.4f}")


if __name__ == "__main__":
    main()
