"""Train an MLP on handwritten digits with FSDP2 and tensor parallelism, on the mesh that the job asks for.

The degrees come as `mp_parameters`, as SageMaker's SDKs send them: {"tensor_parallel_degree": 2} on four
processes is a 2x2 mesh. Data and result are those of digits_ddp.py.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from muster.training.mesh import device_mesh


class Digits(nn.Module):
    """8x8 grey pixels in, ten scores out. Two layers that tensor parallelism splits between them."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        scores: torch.Tensor = self.down(nn.functional.relu(self.up(images)))
        return scores


def parse_args() -> argparse.Namespace:
    """Read the hyperparameters."""
    data = os.environ.get("SM_CHANNEL_TRAINING", "/opt/ml/input/data/training")
    model = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=16, help="of each part of the data")
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--model-dir", type=Path, default=model)
    # An argument as every hyperparameter is; its form differs from launcher to launcher, so the mesh
    # is made of the environment.
    parser.add_argument("--mp_parameters", help="degrees of parallelism, see device_mesh()")
    return parser.parse_args()


def load_digits(folder: Path, seed: int) -> tuple[tuple[torch.Tensor, ...], ...]:
    """Return (training, test), each as images and labels. The seed alone splits them."""
    (path,) = folder.glob("*.npz")
    with np.load(path) as file:
        images = torch.from_numpy(file["images"]).float().div(16).flatten(1)
        labels = torch.from_numpy(file["labels"]).long()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    return (images[train], labels[train]), (images[test], labels[test])


def data_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """Return the ranks over which parameters are sharded, and replicated where the job asks for it."""
    names = mesh.mesh_dim_names or ()
    if "cp" in names:
        raise ValueError("context_parallel_degree splits sequences, and this model has none")
    return mesh["dp_replicate", "dp_shard"] if "dp_replicate" in names else mesh["dp_shard"]


def share_of_data(data: DeviceMesh) -> tuple[int, int]:
    """Return (which part of the data is this rank's, of how many).

    Ranks of one `tp` group work on the same samples: their parts of each layer are of one model.
    """
    part = 0
    for dimension in range(data.ndim):
        part = part * data.size(dimension) + data.get_local_rank(dimension)
    return part, data.size()


def train(model: nn.Module, data: tuple[torch.Tensor, ...], args: argparse.Namespace) -> None:
    """Train in place. `data` is this rank's part."""
    images, labels = data
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        batches = torch.split(order, args.batch_size)
        for batch in batches:
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
        say(f"epoch={epoch + 1} train_loss={total / len(batches):.4f}")


@torch.no_grad()
def evaluate(model: nn.Module, data: tuple[torch.Tensor, ...]) -> float:
    """Return the share of the test set that the model gets right. All ranks count all of it."""
    images, labels = data
    return float((model(images).argmax(dim=1) == labels).float().mean())


def save(model: nn.Module, folder: Path) -> None:
    """Gather the whole model, which every rank has to help with, and write it on rank 0."""
    whole = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(whole, folder / "model.pt.tmp")
        os.replace(folder / "model.pt.tmp", folder / "model.pt")
    dist.barrier()  # nobody leaves before the model is on disk


def say(line: str) -> None:
    """Print on rank 0 only."""
    if dist.get_rank() == 0:
        print(line, flush=True)


def main() -> None:
    """Train, test, save."""
    args = parse_args()
    train_data, test_data = load_digits(args.data, args.seed)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    mesh = device_mesh()
    sharded = data_mesh(mesh)
    part, parts = share_of_data(sharded)
    say(f"mesh={dict(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True))} parts={parts}")

    torch.manual_seed(args.seed)  # the same first weights everywhere
    model = Digits().to(device)
    # First each layer over the ranks of a `tp` group, then what is left over the others.
    parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model, mesh=sharded)
    # As many samples for every part: a rank that makes a step more than others would wait for ever.
    even = len(train_data[0]) // parts
    train(model, tuple(t[part::parts][:even].to(device) for t in train_data), args)
    accuracy = evaluate(model, tuple(t.to(device) for t in test_data))
    save(model, args.model_dir)
    say(f"test_accuracy={accuracy:.4f}")
    dist.destroy_process_group()
    time.sleep(0.1)  # for gloo's threads, as in digits_ddp.py


if __name__ == "__main__":
    main()
