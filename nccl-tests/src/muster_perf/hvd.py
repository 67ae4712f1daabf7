"""An all-reduce by Horovod's own operations: `python -m muster_perf.hvd --sizes 2,2 -b 4M -J FILE`.

Its ranks meet over Horovod's rendezvous server, which rank 0 keeps at MASTER_PORT, and its Gloo controller: without
horovodrun and without mpirun, whose start is not what is measured. On GPUs the operations are NCCL's, where Horovod was built so.

Effects: network, each rank's device; rank 0 prints, and writes one file.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from muster_perf import results
from muster_perf.errors import FAILED, OK, REFUSED, PerfError, complain
from muster_perf.flags import read_size
from muster_perf.world import Identity, have_met, identify

COMMAND = "hvd"
_VALUES = 7
"""Elements count up to it and begin again: whole numbers, of which every sum is exact."""
_MICROSECONDS = 1e6


def places(sizes: Sequence[int], rank: int) -> dict[str, str]:
    """Who a rank is in Horovod's words. Pure.

    Args:
        sizes: ranks of each host.
        rank: of all.

    Raises:
        PerfError: there is no such rank.
    """
    every = [(host, local) for host, size in enumerate(sizes) for local in range(size)]
    if rank >= len(every):
        raise PerfError(f"rank {rank} is not among the {len(every)} of --sizes", "", REFUSED)
    host, local = every[rank]
    # The ranks of that number on all hosts that have one.
    across = [other for other, size in enumerate(sizes) if size > local]
    found = {
        "HOSTNAME": f"host-{host}",
        "RANK": rank,
        "SIZE": sum(sizes),
        "LOCAL_RANK": local,
        "LOCAL_SIZE": sizes[host],
        "CROSS_RANK": across.index(host),
        "CROSS_SIZE": len(across),
    }
    return {f"HOROVOD_{name}": str(value) for name, value in found.items()}


def run(options: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Adds up on all ranks. The status is the same on each, but for ranks that lose the others.

    Raises:
        PerfError: Horovod is not there, or the ranks don't meet.
    """
    identity = identify(env)
    _set_up(options.sizes, identity, env)
    try:
        import horovod.torch as hvd  # noqa: PLC0415  (after the variables that it reads)
    except ImportError as error:
        raise PerfError(f"Horovod can't be imported: {error}", "", REFUSED) from error
    hvd.init()
    have_met(env)
    if hvd.size() != identity.size:
        raise PerfError(f"{hvd.size()} ranks have met, {identity.size} were asked for")
    seconds, wrong = _measure(hvd, options.bytes, options.iters)
    if identity.rank == 0:
        _tell(identity, options, seconds, hvd.nccl_built())
    hvd.shutdown()
    if wrong:
        print(f"{COMMAND}: {wrong} wrong values over all ranks", file=sys.stderr, flush=True)
    return FAILED if wrong else OK


def _set_up(sizes: Sequence[int], identity: Identity, env: Mapping[str, str]) -> None:
    """Sets what Horovod reads, and on rank 0 keeps the server at which the ranks meet. Effects: a thread."""
    address, port = env.get("MASTER_ADDR", "127.0.0.1"), int(env.get("MASTER_PORT", "29500"))
    interface = env.get("HOROVOD_GLOO_IFACE") or env.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    os.environ |= places(sizes, identity.rank) | {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": socket.gethostbyname(address),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        **({"HOROVOD_GLOO_IFACE": interface} if interface else {}),
    }
    if identity.rank:
        return
    try:
        from horovod.runner.http.http_server import (  # noqa: PLC0415
            RendezvousHandler,
            RendezvousHTTPServer,
        )
    except ImportError as error:
        raise PerfError(f"Horovod can't be imported: {error}", "", REFUSED) from error
    try:
        server = RendezvousHTTPServer(("", port), RendezvousHandler, 0)
    except OSError as error:
        raise PerfError(f"port {port} can't be used: {error.strerror}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _measure(hvd: Any, size: int, iters: int) -> tuple[float, int]:
    """Seconds of a call, and the values that are wrong over all ranks."""
    import torch  # noqa: PLC0415

    gpu = torch.cuda.is_available() and hvd.nccl_built()
    device = torch.device("cuda", hvd.local_rank()) if gpu else torch.device("cpu")
    steps = torch.arange(size // 4, device=device, dtype=torch.float32) % _VALUES
    summed = hvd.allreduce(steps + hvd.rank(), op=hvd.Sum, name="values")
    others = hvd.size() * (hvd.size() - 1) / 2
    own_wrong = int((summed != steps * hvd.size() + others).sum())
    wrong = int(hvd.allreduce(torch.tensor([own_wrong]), op=hvd.Sum, name="wrong")[0])
    begin = time.perf_counter()
    for number in range(iters):
        hvd.allreduce_(steps, op=hvd.Sum, name=f"timed.{number}")
    if gpu:
        torch.cuda.synchronize(device)
    return (time.perf_counter() - begin) / iters, wrong


def _tell(identity: Identity, options: argparse.Namespace, seconds: float, nccl: bool) -> None:
    size, ranks = options.bytes, identity.size
    busbw = size / 1e9 / seconds * 2 * (ranks - 1) / ranks
    print(f"# {size} bytes over {ranks} ranks: {seconds * 1e3:.3f} ms, busbw {busbw:.2f} GB/s")
    if options.output_file:
        row = {"size": size, "in_place": {"time": seconds * _MICROSECONDS, "bus_bw": busbw}}
        backend = f"horovod ({'nccl' if nccl else 'gloo'})"
        own = {"backend": backend, "world": ranks}
        try:
            results.write(options.output_file, {"results": [row], "muster": own})
        except OSError as error:
            raise PerfError(f"{options.output_file} can't be written: {error.strerror}") from error


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns its status."""
    parser = argparse.ArgumentParser(prog=f"muster_perf.{COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--sizes", type=_sizes, required=True, metavar="N,N", help="ranks of each host")
    add("-b", "--bytes", type=read_size, default="4M", metavar="BYTES", help="how much (4M)")
    add("-n", "--iters", type=int, default=3, metavar="N", help="calls that are timed (3)")
    add("-J", "--output_file", metavar="FILE", help="write the results as JSON")
    try:
        return run(parser.parse_args(words), os.environ)
    except PerfError as error:
        return complain(COMMAND, error)


if __name__ == "__main__":
    sys.exit(main())
