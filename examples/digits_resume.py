"""Train the network of digits_ddp.py so that an interrupted job goes on where it was.

What is new is marked "Resume:". After each epoch the state is saved; a job that is started again
begins behind the newest epoch that all processes can read, and ends as if nothing had happened.
SageMaker brings the folder back to a restarted job where it has a checkpoint_s3_uri.
"""

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
from digits_ddp import (
    BASE_BATCH,
    Place,
    build_model,
    evaluate,
    find_data,
    join,
    load_digits,
    parse_args,
    rate_factor,
    save,
    say,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from muster.training import checkpoint


def train(model: nn.Module, data: TensorDataset, place: Place, args: argparse.Namespace) -> None:
    """Train the model in place, each process on its own part of the data."""
    batch = max(1, (args.batch_size or BASE_BATCH * place.world) // place.world)
    scale = batch * place.world / BASE_BATCH
    sampler: DistributedSampler[tuple[torch.Tensor, ...]]
    sampler = DistributedSampler(data, place.world, place.rank, seed=args.seed)
    loader = DataLoader(data, batch_size=batch, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    steps, warmup = args.epochs * len(loader), int(args.warmup_epochs * len(loader))
    schedule = LambdaLR(optimizer, lambda step: rate_factor(step, steps, warmup, scale))
    # Resume: all that the next epoch depends on. Its order of the data follows from its number.
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}

    begun = checkpoint.resume()  # Resume: on every process, and the same answer for all
    if begun is not None:
        for name, state in checkpoint.load(begun).items():
            parts[name].load_state_dict(state)
        say(place, f"resumed after epoch={begun}")

    # After the loading: DDP copies rank 0's weights to all.
    device_ids = [place.device.index] if place.device.type == "cuda" else None
    net = DistributedDataParallel(model, device_ids=device_ids) if place.grouped else model
    for epoch in range(begun or 0, args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=place.device)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(
                net(images.to(place.device)), labels.to(place.device)
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.detach()
        # Resume: DDP keeps all processes alike, so rank 0's state is everybody's, and one file.
        states = {name: part.state_dict() for name, part in parts.items()}
        checkpoint.save(states, epoch + 1, scope="leader")
        say(place, f"epoch={epoch + 1} train_loss={total.item() / len(loader):.4f}")


def main() -> None:
    """Train, test, save."""
    args = parse_args()
    train_data, test_data = load_digits(find_data(args.data), args.seed)
    place = join()
    torch.manual_seed(args.seed)
    model = build_model().to(place.device)
    train(model, train_data, place, args)
    accuracy = evaluate(model, test_data, place)
    if place.rank == 0:
        save(model, args.model_dir)
    if place.grouped:
        dist.barrier()  # nobody leaves before the model is on disk
        dist.destroy_process_group()
        time.sleep(0.1)  # for gloo's thread, as in digits_ddp.py
    say(place, f"test_accuracy={accuracy:.4f}")


if __name__ == "__main__":
    main()
