"""The same product of matrices again and again on every rank at once, and are all of them the same?

`python -m muster_perf.burn --seconds 10 -J FILE`: a GPU, or a CPU, that computes wrongly says so nowhere else. The
matrices are small whole numbers, the same on every rank, so that every product is exact: two that differ are no rounding.

Effects: load on every rank's device; rank 0 prints, and writes one file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from muster_perf import results
from muster_perf.errors import FAILED, OK, PerfError, complain
from muster_perf.flags import Flags
from muster_perf.world import World, identify, join, leave

if TYPE_CHECKING:
    import torch

COMMAND = "burn"
_SIDE = {"cuda": 8192, "cpu": 512}
"""Of the square matrices, by what computes: a product takes milliseconds on either."""
_SEED = 20260801
_LARGEST = 2
"""Of the numbers: sums of 8192 products stay far below 2^24, to which float is exact."""
_MODULUS = 2**31
_TIMEOUT_S = 60


class Burned(NamedTuple):
    """What one rank has seen."""

    products: int
    wrong: int
    """Products that differ from the first one."""
    milliseconds: float
    """The median time of one."""
    digest: int
    """Of the first product."""


def burn(
    device: torch.device, seconds: float, multiply: Callable[[Any, Any], Any] | None = None
) -> Burned:
    """Multiplies for that long, and at least three times.

    Args:
        device: where.
        seconds: how long.
        multiply: torch.matmul by default.
    """
    import torch  # noqa: PLC0415

    multiply = multiply or torch.matmul
    # Else parts of a sum may be rounded before they are added, by some GPUs and not by others.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    left, right = _matrices(device)
    first = multiply(left, right)
    digest = _digest(first)
    products, wrong, times = 1, 0, []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end or products < 3:  # noqa: PLR2004  (three)
        # The comparison waits for the device.
        wrong += not torch.equal(multiply(left, right), first)
        times.append(time.perf_counter() - begin)
        products += 1
    return Burned(products, wrong, statistics.median(times) * 1e3, digest)


def judge(found: Sequence[Burned]) -> list[str]:
    """What is wrong with the ranks' products, a line a rank. Pure."""
    told = [
        f"rank {rank}: {each.wrong} of {each.products} products differ from its first"
        for rank, each in enumerate(found)
        if each.wrong
    ]
    digests = Counter(each.digest for each in found)
    (common, most), *_ = digests.most_common()
    if len(digests) > 1 and most * 2 <= len(found):
        return [*told, "the ranks' products differ from each other"]
    told += [
        f"rank {rank}: its products differ from the other ranks'"
        for rank, each in enumerate(found)
        if each.digest != common
    ]
    return told


def run(seconds: float, path: str | None, env: Mapping[str, str]) -> int:
    """Burns on all ranks. The status is the same on each.

    Raises:
        PerfError: the ranks don't meet, or the file can't be written.
    """
    world = join(Flags(timeout=int(seconds) + _TIMEOUT_S), identify(env), env)
    try:
        world.barrier()
        told = world.exchange(*burn(world.device, seconds))
    finally:
        leave()
    found = [Burned(int(n), int(wrong), ms, int(digest)) for n, wrong, ms, digest in told]
    wrong = judge(found)
    if world.rank == 0:
        _tell(world, found, path)
    for line in wrong:
        print(f"{COMMAND}: {line}", file=sys.stderr, flush=True)
    return FAILED if wrong else OK


def _tell(world: World, found: Sequence[Burned], path: str | None) -> None:
    for rank, each in enumerate(found):
        print(f"# rank {rank}: {each.products} products, {each.milliseconds:.3f} ms each")
    if path:
        side = _SIDE[world.device.type]
        document = {"side": side, "ranks": [each._asdict() for each in found]}
        try:
            results.write(path, document)
        except OSError as error:
            raise PerfError(f"{path} can't be written: {error.strerror}") from error


def _matrices(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    import torch  # noqa: PLC0415

    side = _SIDE[device.type]
    # By the CPU's generator: a GPU's own differs from model to model.
    chance = torch.Generator().manual_seed(_SEED)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = (
        torch.randint(-_LARGEST, _LARGEST + 1, (side, side), generator=chance).to(device, kind)
        for _ in range(2)
    )
    return left, right


def _digest(product: torch.Tensor) -> int:
    """A number of the product's bits that tells where they stand, and needs no second matrix."""
    import torch  # noqa: PLC0415

    width = {2: torch.int16, 4: torch.int32}[product.element_size()]
    bits = product.view(width)
    places = torch.arange(1, bits.shape[0] + 1, device=bits.device)
    sums = [(bits.sum(axis, dtype=torch.int64) % _MODULUS * places).sum() for axis in (0, 1)]
    return int(sum(sums) % _MODULUS)


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns its status."""
    parser = argparse.ArgumentParser(prog=f"muster_perf.{COMMAND}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("-J", "--output_file", metavar="FILE", help="write the results as JSON")
    options = parser.parse_args(words)
    try:
        return run(options.seconds, options.output_file, os.environ)
    except PerfError as error:
        return complain(COMMAND, error)


if __name__ == "__main__":
    sys.exit(main())
