"""`muster storage-plan`: what a file system must give for an epoch's time. Effects: prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from muster.check import fsx
from muster.check.figures import counted, data, read_size, read_time, time
from muster.variables import positive

T = TypeVar("T")
_BITS = 8
_GIGA = 10**9
_CACHES = (
    "Caches help later epochs only, and bursts the first minutes: neither is reckoned with here.",
    "Each host reads its own part of the data. Where every host reads all of it, multiply by the hosts.",
)


def show_storage_plan(words: Sequence[str]) -> int:
    """Prints the rate, and the FSx for Lustre file systems that give it. The status is 0."""
    options = _parser().parse_args(words)
    rate = options.dataset / options.epoch
    found = fsx.offers(options.dataset, rate)
    if options.json:
        print(json.dumps(_as_json(options, rate, found), indent=2))
    else:
        print("\n".join(_lines(options, rate, found)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muster storage-plan",
        description="What storage must give so that an epoch can be so short.",
    )
    size, seconds, hosts = (
        _typed(read_size, "a size"),
        _typed(read_time, "a time"),
        _typed(positive, "a number"),
    )
    parser.add_argument(
        "--dataset", type=size, required=True, help="its size: 100GB, 1.5TB, 800GiB"
    )
    parser.add_argument(
        "--epoch", type=seconds, required=True, help="a pass over it: 30s, 5min, 1.5h"
    )
    parser.add_argument("--hosts", type=hosts, default=1, help="that read, each its part (1)")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def _typed(read: Callable[[str], T], name: str) -> Callable[[str], T]:
    """A type for argparse, which would name the function in its message."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {name}") from None

    return parse


def _lines(options: argparse.Namespace, rate: float, found: Sequence[fsx.Offer]) -> list[str]:
    share = rate / options.hosts
    need = f"{data(options.dataset)} in {time(options.epoch)}: {rate / _GIGA:.2f} GB/s"
    hosts = f"{counted(options.hosts, 'host')}: {share / _GIGA:.2f} GB/s each, {share * _BITS / _GIGA:.1f} Gbit/s of its network"
    rows = [
        f"{one.deployment.type:<13} {one.deployment.rate:>9}  {one.capacity / 1000:>7.1f} TiB  {one.rate / _GIGA:>6.2f} GB/s"
        for one in found
    ]
    return [
        need,
        hosts,
        "",
        "FSx for Lustre on SSD, the smallest that gives it:",
        f"{'type':<13} {'MB/s/TiB':>9}  {'capacity':>11}  {'gives':>11}",
        *rows,
        "",
        *_CACHES,
        f"AWS's figures, read on {fsx.READ_ON}: {fsx.SOURCES[0]}",
    ]


def _as_json(
    options: argparse.Namespace, rate: float, found: Sequence[fsx.Offer]
) -> dict[str, Any]:
    return {
        "dataset_bytes": options.dataset,
        "epoch_seconds": options.epoch,
        "hosts": options.hosts,
        "bytes_per_second": rate,
        "bytes_per_second_a_host": rate / options.hosts,
        "fsx_for_lustre": [
            {
                "deployment_type": one.deployment.type,
                "mb_per_second_per_tib": one.deployment.rate,
                "capacity_gib": one.capacity,
                "bytes_per_second": one.rate,
            }
            for one in found
        ],
        "sources": list(fsx.SOURCES),
        "read_on": fsx.READ_ON,
    }
