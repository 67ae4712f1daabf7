"""Train the digits with SageMaker's data parallel library: digits_ddp.py's model and data, by AWS's guide.

Run it as a job with `distribution={"smdistributed": {"dataparallel": {"enabled": True}}}` on ml.p4d, in an image that
has AWS's library. What is the library's is marked.
"""

import argparse
import os

import torch
import torch.distributed as dist
from digits_ddp import build_model, find_data, load_digits, parse_args, save
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

# Where the library can't work, MUSTER_SMDDP_FALLBACK=nccl starts the ranks all the same, and says so here.
BACKEND = os.environ.get("MUSTER_BACKEND", "smddp")
if BACKEND == "smddp":
    # smddp: importing it makes the backend known, and is all that it needs. It refuses other instances.
    import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401


def train(
    net: nn.Module,
    parts: tuple[TensorDataset, TensorDataset],
    device: torch.device,
    args: argparse.Namespace,
) -> float:
    """Train in place; test on rank 0 after each epoch. Return the last accuracy; on other ranks 0."""
    world, rank = dist.get_world_size(), dist.get_rank()
    batch = max(1, (args.batch_size or 16 * world) // world)  # the global batch is shared out
    sampler: DistributedSampler[tuple[torch.Tensor, ...]]
    sampler = DistributedSampler(parts[0], num_replicas=world, rank=rank, seed=args.seed)
    loader = DataLoader(parts[0], batch_size=batch, sampler=sampler)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    schedule = StepLR(optimizer, step_size=1, gamma=0.7)
    accuracy = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        if rank == 0:
            accuracy = evaluate(net, parts[1], device)
            print(f"epoch={epoch + 1} accuracy={accuracy:.4f}", flush=True)
    return accuracy


@torch.no_grad()
def evaluate(net: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Return the share of the test set that the model gets right."""
    images, labels = (part.to(device) for part in data.tensors)
    # The module inside: DDP's own forward may speak to the other ranks, which are not here.
    scores = net.module(images) if isinstance(net, DistributedDataParallel) else net(images)
    return float((scores.argmax(dim=1) == labels).float().mean())


def main() -> None:
    """Train, test, save."""
    args = parse_args()
    parts = load_digits(find_data(args.data), args.seed)
    gpu = torch.cuda.is_available()
    # smddp: no second backend and no new_group beside it. Its stand-in NCCL needs GPUs; a CPU host has gloo.
    dist.init_process_group("gloo" if BACKEND == "nccl" and not gpu else BACKEND)
    device = torch.device("cpu")
    if gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # one GPU a process
        torch.cuda.set_device(device)
    torch.manual_seed(args.seed)
    net = DistributedDataParallel(build_model().to(device))
    accuracy = train(net, parts, device, args)
    if dist.get_rank() == 0:
        save(net.module, args.model_dir)  # all hold the same model; more writers would clash
        print(f"test_accuracy={accuracy:.4f}", flush=True)
    dist.barrier()  # nobody leaves before the model is on disk
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
