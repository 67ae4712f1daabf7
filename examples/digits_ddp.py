"""Train a small CNN on handwritten digits, with one process or with many.

Run it by hand, under torchrun, or as a SageMaker job: the environment says who each process is.
Data: one .npz file in channel `training` (make_digits.py writes it). Result: the file model.pt.
"""

import argparse
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BASE_BATCH = 16  # the batch that --lr is meant for; a larger global batch scales the rate


@dataclass(frozen=True)
class Place:
    """Where this process stands in the job: all that differs from one process to the next."""

    rank: int
    world: int
    device: torch.device
    grouped: bool


def parse_args() -> argparse.Namespace:
    """Read the hyperparameters. Every one has a default that works."""
    # The platform mounts the channel and the model folder; the harness names them in SM_*.
    data = os.environ.get("SM_CHANNEL_TRAINING", "/opt/ml/input/data/training")
    model = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, help="global; default 16 for each process")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate for a batch of 16")
    parser.add_argument("--warmup-epochs", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--model-dir", type=Path, default=model)
    return parser.parse_args()


def find_data(folder: Path) -> Path:
    """Return the one .npz file in the folder; raise an error that says what was expected."""
    found = sorted(folder.glob("*.npz"))
    if len(found) == 1:
        return found[0]
    no = "no such file" if folder.is_dir() else "no such folder"
    # Raise, never sys.exit: an exception's type and text become the job's failure reason.
    raise FileNotFoundError(
        f"channel 'training' at {folder}: expected one .npz file with 'images' and 'labels', "
        f"found {', '.join(path.name for path in found) or no}"
    )


def load_digits(path: Path, seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Return (training, test). The seed alone splits them, so every process agrees."""
    with np.load(path) as file:
        images = torch.from_numpy(file["images"]).float().div(16).unsqueeze(1)  # pixels: 0..16
        labels = torch.from_numpy(file["labels"]).long()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def join() -> Place:
    """Meet the other processes, if any. Effects: picks the GPU, opens the process group."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    # One GPU a process, by its number on this host. Without it all would crowd onto GPU 0.
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else None
    if device:
        torch.cuda.set_device(device)
    grouped = "RANK" in os.environ  # no launcher, no group: `python digits_ddp.py` trains alone
    if grouped:
        # env:// takes RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment, so no
        # address is in the code. NCCL needs GPUs; gloo serves CPU hosts with the same script.
        backend = "nccl" if gpu else "gloo"
        dist.init_process_group(backend, init_method="env://", device_id=device)
    return Place(rank, world, device or torch.device("cpu"), grouped)


def build_model() -> nn.Module:
    """Return the untrained network: 8x8 grey pixels in, ten scores out."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),  # bears high rates; unlike batch norm it has no state to keep equal
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def rate_factor(step: int, steps: int, warmup: int, scale: float) -> float:
    """Return the factor for --lr: from 1 up to `scale` in warm-up, then on a cosine to 0."""
    # Batch times k means rate times k (Goyal et al. 2017, arXiv:1706.02677), but fresh weights
    # don't survive the full rate: hence a gradual warm-up.
    if step < warmup:
        return 1 + (scale - 1) * step / warmup
    return scale * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2


def train(model: nn.Module, data: TensorDataset, place: Place, args: argparse.Namespace) -> None:
    """Train the model in place, each process on its own part of the data."""
    # DDP averages the gradients. device_ids is for GPUs only: with it DDP refuses a CPU host.
    device_ids = [place.device.index] if place.device.type == "cuda" else None
    net = DistributedDataParallel(model, device_ids=device_ids) if place.grouped else model

    # The global batch is shared out, at least one sample to each process. By default it grows
    # with the processes, and the rate with it: rate times the number of processes.
    batch = max(1, (args.batch_size or BASE_BATCH * place.world) // place.world)
    scale = batch * place.world / BASE_BATCH
    sampler: DistributedSampler[tuple[torch.Tensor, ...]]
    sampler = DistributedSampler(data, place.world, place.rank, seed=args.seed)
    loader = DataLoader(data, batch_size=batch, sampler=sampler)
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    steps, warmup = args.epochs * len(loader), int(args.warmup_epochs * len(loader))
    schedule = LambdaLR(optimizer, lambda step: rate_factor(step, steps, warmup, scale))
    say(place, f"processes={place.world} device={place.device.type} process_batch={batch}")

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # without it every epoch has the same order and the same parts
        total = torch.zeros((), device=place.device)
        for images, labels in loader:
            scores = net(images.to(place.device))
            loss = nn.functional.cross_entropy(scores, labels.to(place.device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.detach()  # .item() here would make the GPU wait at every step
        rate, mean = schedule.get_last_lr()[0], total.item() / len(loader)
        say(place, f"epoch={epoch + 1} train_loss={mean:.4f} lr={rate:.4f}")


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset, place: Place) -> float:
    """Return the share of the whole test set that the model gets right, the same everywhere."""
    # Each process counts a slice. DistributedSampler would repeat samples to even them out.
    images, labels = (part[place.rank :: place.world].to(place.device) for part in data.tensors)
    right = (model(images).argmax(dim=1) == labels).sum()
    if place.grouped:
        dist.all_reduce(right)
    return float(right) / len(data)


def save(model: nn.Module, folder: Path) -> None:
    """Write model.pt whole or not at all. Effects: leaves that file and no other."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / "model.pt.tmp"
    try:
        with temporary.open("wb") as file:
            # CPU tensors without DDP's "module." prefix: any host can load them.
            torch.save({name: value.cpu() for name, value in model.state_dict().items()}, file)
            file.flush()
            os.fsync(file.fileno())  # on disk before it gets its name
        os.replace(temporary, folder / "model.pt")  # at once: nobody ever sees half a file
    finally:
        temporary.unlink(missing_ok=True)


def say(place: Place, line: str) -> None:
    """Print on rank 0 only, as the others would repeat it; flushed, to be seen at once."""
    if place.rank == 0:
        print(line, flush=True)


def main() -> None:
    """Train, test, save."""
    args = parse_args()
    # Read before joining: where data is missing, this host fails before others wait for it.
    train_data, test_data = load_digits(find_data(args.data), args.seed)
    place = join()
    torch.manual_seed(args.seed)  # the same first weights everywhere, and in every run
    model = build_model().to(place.device)
    train(model, train_data, place, args)
    accuracy = evaluate(model, test_data, place)
    if place.rank == 0:
        save(model, args.model_dir)  # all hold the same model; more writers would clash
    if place.grouped:
        dist.barrier()  # nobody leaves before the model is on disk
        dist.destroy_process_group()
        # Gloo's thread needs Python's lock to let go of the last collective's tensors. Where
        # Python ends first, torch 2.13 aborts the process: in 1 of 20 runs without this.
        time.sleep(0.1)
    say(place, f"test_accuracy={accuracy:.4f}")


if __name__ == "__main__":
    main()
