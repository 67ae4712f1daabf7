"""The checks of this package, as the page has them. They need the job's plan, and so run after all others."""

from __future__ import annotations

from muster.check.collective.pairs import ROUNDS
from muster.check.collective.worlds import LIMIT_S, MEET_S
from muster.check.finding import Check, by_all

BURN, HOST, JOB, HOROVOD, PAIRS = (
    "collective.burn",
    "collective.host",
    "collective.job",
    "collective.horovod",
    "collective.pairs",
)
LINKS, EFA, NETWORK = "gpu.nvlink_growth", "efa.errors", "efa.nccl"
"""What is looked at beside the whole job's all-reduce, where there are GPUs."""
_OURS = "our own choice"
_FAST = "At the level fast on GPUs, at full everywhere"
_ENDS = f"FAIL for a wrong value, a rank that fails, ranks that don't meet within {MEET_S:.0f} s or end {LIMIT_S:.0f} s later"

CHECKS: tuple[Check, ...] = (
    Check(
        BURN,
        "full",
        "Every rank multiplies the same matrices for 10 s (2 s on CPUs), each host for itself, and all products are compared",
        by_all,
        limits=f"{_ENDS}, and for products that differ; WARN from 1.1 times the median time of a product on such hosts, FAIL from 1.5; on CPUs WARN from 5 times",
        source="imbue's and DCGM's burns compare so; the factors are those of DLRover's and superbench's stragglers",
        timeout_s=LIMIT_S,
        remedy="Start the job again so that it gets other instances.",
    ),
    Check(
        HOST,
        "fast",
        f"An all-reduce over the ranks of each host alone: 64 MiB on GPUs, 4 MiB without. {_FAST}",
        by_all,
        limits=f"{_ENDS}; on GPUs WARN below 0.85 of the median speed of such hosts, at full FAIL below 0.7; on CPUs WARN below a fifth",
        source=_OURS,
        timeout_s=LIMIT_S,
        remedy="Start the job again so that it gets other instances; `all_reduce_perf` repeats it by hand.",
    ),
    Check(
        JOB,
        "fast",
        f"An all-reduce over all ranks of the job, where they will be: 64 MiB on GPUs, 4 MiB without; at full a sweep up to 1 GiB. {_FAST}",
        by_all,
        limits=f"{_ENDS}; busbw: WARN below 0.85 of the job's own good run (MUSTER_BASELINE), FAIL below half; else WARN below 0.75 of a public number, FAIL below half",
        source="health checks of NVIDIA, Meta and Microsoft all end with one; numbers and their sources: nccl-tests/src/muster_perf/baselines.toml",
        timeout_s=LIMIT_S,
        remedy="`muster train all_reduce_perf` by hand, with NCCL_DEBUG=INFO.",
    ),
    Check(
        LINKS,
        "fast",
        "What NVLinks have had to repeat during that all-reduce",
        by_all,
        limits="WARN for any replay or recovery, FAIL from 100 CRC errors a second",
        source="NVIDIA's DCGM",
        timeout_s=LIMIT_S,
        remedy="If the same host has it again, start the job again so that it gets another one.",
    ),
    Check(
        EFA,
        "fast",
        "What EFA has lost or sent again during that all-reduce, by its error counters",
        by_all,
        limits="WARN for any error, 100 time-outs, 1000 packets or 1 MB sent again a second",
        source="AWS's eks-node-monitoring-agent",
        timeout_s=LIMIT_S,
        remedy="If the same host has it again, start the job again so that it gets another one.",
    ),
    Check(
        NETWORK,
        "fast",
        "Which network NCCL has picked between the hosts, by its own log of that all-reduce",
        by_all,
        limits="FAIL where it is not EFA on hosts that have it",
        source="aws-ofi-nccl's and NCCL's log lines",
        timeout_s=LIMIT_S,
        remedy="`ldconfig -p | grep nccl-net`, /dev/infiniband, and FI_PROVIDER, NCCL_NET, NCCL_NET_PLUGIN.",
    ),
    Check(
        HOROVOD,
        "fast",
        f"The same by Horovod's own allreduce, where the launcher is horovodrun or mpirun and the image has Horovod. {_FAST}",
        by_all,
        limits=_ENDS,
        source=_OURS,
        timeout_s=LIMIT_S,
        remedy="Is Horovod built for this torch, and on GPUs with NCCL? `horovodrun --check-build` says so.",
    ),
    Check(
        PAIRS,
        "fast",
        f"Which host it is: pairs of hosts in worlds of their own, in at most {ROUNDS} rounds. At full, and where collective.job has failed",
        by_all,
        limits="FAIL for a host that no other host does well with; slow is as for collective.host, against the quickest quarter of the pairs; UNKNOWN where the job has failed and no host stands out",
        source="two rounds of pairs, as DLRover, Google's cluster-health-scanner and Meta's gcm have them",
        timeout_s=ROUNDS * LIMIT_S,
        remedy="Start the job again so that it gets other instances.",
    ),
)
"""In the order in which they run."""
