"""all_reduce_perf with one rank a host, all on one device: with an NCCL_HOSTID of its own each is a host to NCCL."""

from __future__ import annotations

import os
import sys

from muster_perf.commands import main

os.environ["NCCL_HOSTID"] = os.environ["SM_CURRENT_HOST"]
raise SystemExit(main("all_reduce", sys.argv[1:]))
