"""The ranks: how they find each other under any launcher, and what they tell each other. Effects: network, GPU."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from muster_perf.errors import REFUSED, PerfError
from muster_perf.flags import Flags

if TYPE_CHECKING:
    import torch

_NAMES = {
    "rank": ("OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "RANK"),
    "size": ("OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE", "WORLD_SIZE"),
    "local_rank": ("OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "LOCAL_RANK"),
    "local_size": ("OMPI_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"),
}
"""What launchers call it, torch.distributed's own names last: they may be left over from outside of the launcher."""
_PORT = 29500
_SMDDP = "smdistributed.dataparallel.torch.torch_smddp"


class Identity(NamedTuple):
    """Who this process is among those that the launcher has started."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    meeting: str | None
    """torch.distributed's init_method; None for a process that is alone."""


def identify(env: Mapping[str, str]) -> Identity:
    """Who this process is. Without a launcher it is alone. Pure.

    Raises:
        PerfError: the launcher doesn't say where the ranks meet, or only half of who they are.
    """
    found = {}
    for part, every in _NAMES.items():
        # Under torchrun its own alone: another launcher may have started it.
        names = every[-1:] if "TORCHELASTIC_RUN_ID" in env else every
        texts = [env[name] for name in names if env.get(name)]
        if texts and not texts[0].isdecimal():
            raise PerfError(f"{part} is {texts[0]!r}, which is no number ({', '.join(names)})")
        found[part] = int(texts[0]) if texts else None
    rank, size = found["rank"], found["size"]
    if rank is None and size in (None, 1):
        return Identity(0, 1, 0, 1, None)
    if rank is None or size is None or rank >= size:
        what = f"the launcher gives rank {rank} of {size} (RANK, WORLD_SIZE)"
        raise PerfError(what, "Start it under torchrun, mpirun or muster, or without both.")
    local_rank, local_size = found["local_rank"] or 0, found["local_size"] or 1
    return Identity(rank, size, local_rank, local_size, _meeting(env, size, local_size))


def _meeting(env: Mapping[str, str], size: int, local_size: int) -> str:
    if env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
        return "env://"
    port = env.get("MASTER_PORT") or _PORT
    if env.get("MASTER_ADDR"):
        return f"tcp://{env['MASTER_ADDR']}:{port}"
    if size == local_size:
        return f"tcp://127.0.0.1:{port}"
    what = f"{size} ranks on several hosts, and no MASTER_ADDR says where they meet"
    raise PerfError(what, "mpirun -x MASTER_ADDR=HOST, the host of rank 0; muster sets it itself.")


@dataclass(frozen=True)
class World:
    """The ranks that have met."""

    rank: int
    size: int
    local_rank: int
    host: str
    backend: str
    device: torch.device

    def exchange(self, *values: float) -> list[tuple[float, ...]]:
        """Each rank's numbers, in the order of ranks; whole ones are exact up to 2^53. Waits for all.

        By all_gather, which every backend has.
        """
        import torch  # noqa: PLC0415
        import torch.distributed as dist  # noqa: PLC0415

        own = torch.tensor(values, dtype=torch.float64, device=self.device)
        all_of_them = [torch.zeros_like(own) for _ in range(self.size)]
        dist.all_gather(all_of_them, own)
        return [tuple(each) for each in torch.stack(all_of_them).tolist()]

    def barrier(self) -> None:
        """Waits for all ranks, and for what this rank's device has been given to do."""
        self.exchange(0.0)

    def texts(self, own: str) -> list[str]:
        """Each rank's text, in the order of ranks."""
        import torch.distributed as dist  # noqa: PLC0415

        found = [""] * self.size
        dist.all_gather_object(found, own)
        return found

    def synchronize(self) -> None:
        """Waits until this rank's device has done all that it was given."""
        if self.device.type == "cuda":
            import torch  # noqa: PLC0415

            torch.cuda.synchronize(self.device)


def join(flags: Flags, identity: Identity, env: Mapping[str, str]) -> World:
    """Meets the other ranks. Effects: network; the GPU becomes this process's own.

    Raises:
        PerfError: the backend is not there, the GPU is not, or the ranks don't meet.
    """
    import torch  # noqa: PLC0415  (after the flags have been read: seconds)
    import torch.distributed as dist  # noqa: PLC0415

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    backend = _backend(flags, gpus)
    on_gpu = gpus > 0 and backend not in ("gloo", "mpi")
    device = torch.device("cuda", _gpu(identity, gpus, env)) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if backend == "nccl" and not on_gpu:
        raise PerfError("backend nccl needs a GPU, and torch sees none", "", REFUSED)
    timeout = timedelta(seconds=flags.timeout) if flags.timeout else None
    try:
        dist.init_process_group(
            backend,
            init_method=identity.meeting,
            # No port is opened for a process that is alone.
            store=None if identity.meeting else torch.distributed.HashStore(),  # type: ignore[attr-defined]
            rank=identity.rank,
            world_size=identity.size,
            timeout=timeout,
            # Makes the communicator now, so that its time is counted here.
            device_id=device if backend == "nccl" else None,
        )
    except (RuntimeError, ValueError, OSError) as error:
        what = f"the {identity.size} ranks don't meet over {backend}: {first_line(error)}"
        raise PerfError(what, "Do all of them run, and reach MASTER_ADDR?") from error
    have_met(env)
    host = env.get("SM_CURRENT_HOST") or socket.gethostname()
    size = dist.get_world_size()
    return World(dist.get_rank(), size, identity.local_rank, host, dist.get_backend(), device)


def have_met(env: Mapping[str, str]) -> None:
    """Tells whoever has started this rank that it has met the others. Effects: makes the file in MUSTER_MET."""
    if path := env.get("MUSTER_MET"):
        with open(path, "wb"):
            pass


def leave() -> None:
    """Ends the group. Effects: network."""
    import torch.distributed as dist  # noqa: PLC0415

    if dist.is_initialized():
        dist.destroy_process_group()


def first_line(error: BaseException) -> str:
    """The first line of an error's text, which torch's stack frames follow. Pure."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def hosts(names: Sequence[str]) -> list[str]:
    """The hosts, in the order of their first ranks. Pure."""
    return list(dict.fromkeys(names))


def describe(world: World) -> str:
    """This rank's line among the devices, in the form of nccl-tests."""
    if world.device.type != "cuda":
        where, name = "cpu", "no GPU"
    else:
        import torch  # noqa: PLC0415

        found = torch.cuda.get_device_properties(world.device)
        address = [getattr(found, f"pci_{part}_id", 0) for part in ("domain", "bus", "device")]
        where, name = "{:04x}:{:02x}:{:02x}".format(*address), found.name
    index = world.device.index or 0
    return (
        f"#  Rank {world.rank:2d} Group  0 Pid {os.getpid():6d} on {world.host:>10} "
        f"device {index:2d} [{where}] {name}"
    )


def _backend(flags: Flags, gpus: int) -> str:
    import torch.distributed as dist  # noqa: PLC0415

    name = flags.backend or ("nccl" if gpus else "gloo")
    if name == "smddp":
        try:
            __import__(_SMDDP)  # registers the backend
        except ImportError as error:
            what = f"backend smddp: {first_line(error)}"
            raise PerfError(what, "The library is AWS's; see images/smddp.", REFUSED) from error
    if not dist.is_backend_available(name):
        what = f"backend {name} is not registered in this torch"
        raise PerfError(
            what,
            f"It has {', '.join(filter(dist.is_backend_available, dist.Backend.backend_list))}.",
            REFUSED,
        )
    return name


def _gpu(identity: Identity, gpus: int, env: Mapping[str, str]) -> int:
    """The GPU of this rank: the one of its number, or the one that NCCL_TESTS_DEVICE names.

    Raises:
        PerfError: there are fewer.
    """
    chosen = env.get("NCCL_TESTS_DEVICE", "")
    # A launcher may show each rank its own GPU alone.
    index = int(chosen) if chosen.isdecimal() else identity.local_rank if gpus > 1 else 0
    if index >= gpus:
        what = f"rank {identity.rank} has no GPU: {identity.local_size} on this host for {gpus}"
        raise PerfError(what, "Start as many ranks as there are GPUs.", REFUSED)
    return index
