"""One rank a host, all on one device: sums whose result is known, and how long they take.

Two ranks on one GPU are one host to NCCL, which refuses that. With another NCCL_HOSTID each is a host of its own, and they
speak over the network as hosts do (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
"""

from __future__ import annotations

import json
import os
import time

import torch
import torch.distributed as dist

os.environ["NCCL_HOSTID"] = os.environ["SM_CURRENT_HOST"]
gpu = torch.cuda.is_available()
device = torch.device("cuda", 0) if gpu else torch.device("cpu")
if gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if gpu else "gloo", device_id=device if gpu else None)
rank, world = dist.get_rank(), dist.get_world_size()

seconds = 0.0
count = 2**20
for repeat in range(6):
    # Small whole numbers: their sum is exact, in whatever order it is made.
    values = (torch.arange(count, device=device) % 7 + rank).float()
    if gpu:
        torch.cuda.synchronize()
    begin = time.monotonic()
    dist.all_reduce(values)
    if gpu:
        torch.cuda.synchronize()
    seconds = time.monotonic() - begin if repeat else 0.0
    wanted = (torch.arange(count, device=device) % 7 * world + sum(range(world))).float()
    assert torch.equal(values, wanted), f"rank {rank}: a sum is wrong"
if rank == 0:
    facts = {"world": world, "backend": dist.get_backend(), "bytes": 4 * count, "seconds": seconds}
    print("smoke: " + json.dumps(facts), flush=True)
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)
