"""all_reduce in a loop, as one writes it by hand. Prints the seconds of a call, the mean over ranks."""

import sys
import time

import torch
import torch.distributed as dist

size, calls = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
values = torch.ones(size // 4)
dist.all_reduce(values)
dist.barrier()
begin = time.perf_counter()
for _ in range(calls):
    dist.all_reduce(values)
took = torch.tensor([(time.perf_counter() - begin) / calls], dtype=torch.float64)
dist.all_reduce(took)
if dist.get_rank() == 0:
    print(float(took) / dist.get_world_size())
dist.destroy_process_group()
