"""Prints what this torch is and what it finds on the host, as one JSON line; and which NCCL is in the process."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import torch

gpu = torch.cuda.is_available()
facts = {
    "torch": torch.__version__,
    "python": sys.version.split()[0],
    "cuda": torch.version.cuda,
    "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "capabilities": [
        "{}.{}".format(*torch.cuda.get_device_capability(i))
        for i in range(torch.cuda.device_count())
    ],
    "architectures": torch.cuda.get_arch_list(),
}
if torch.version.cuda:
    facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
if gpu:
    facts["sum"] = float(torch.ones(1000, device="cuda").sum())
maps = Path("/proc/self/maps").read_text(encoding="utf-8")
facts["nccl_paths"] = sorted(set(re.findall(r"/\S*libnccl\S*", maps)))
print(json.dumps(facts))
