"""What the figures of a world come to, against each other and against what is expected. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.check.collective.pairs import Limits, Pair, Trial
from muster.check.collective.worlds import IDLE, Told
from muster.check.figures import counted
from muster.check.finding import Finding, Status, combined, passed, skipped, unknown

_REMEDY = "`muster train all_reduce_perf -b 8 -e 64M -f 2` repeats it by hand; NCCL_DEBUG=INFO says what NCCL does."
_SLOW = "docs/benchmark.md says how to look for the slow host by hand."
_EFA = "Does NCCL use EFA (efa.nccl)? "
_NO_BASELINE = "MUSTER_BASELINE, or muster-baseline.json in the checkpoints, is to be the JSON of a run like this one (docs/checks.md says how)."
_WRONG = "products differ"
"""As the burn says it."""
_BURNT = "Start the job again so that it gets other instances: this one computes wrongly."
_LAGS = "Start the job again so that it gets other instances: every step waits for the slowest GPU."
_MIB = 1024 * 1024


def reduced(told: Told) -> Told:
    """What is to be told of a world, from what its ranks have written here: the `result` of rank 0."""
    result = told.figures.get("result")
    figures: dict[str, Any] = {}
    try:
        if result and "side" in result:
            ranks = [(rank["milliseconds"], rank["digest"]) for rank in result["ranks"]]
            figures = {"ranks": ranks}
        elif result:
            figures = _all_reduce(result)
    except (KeyError, TypeError):
        pass  # The ranks have ended well: that is what counts.
    return replace(told, figures=figures)


def with_beside(told: Told, beside: Mapping[str, Finding]) -> Told:
    """What is told, with what this host has found out beside it, by check."""
    packed = {name: [one.status, one.evidence, one.remedy] for name, one in beside.items()}
    return replace(told, figures={**told.figures, "beside": packed})


def _all_reduce(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of a benchmark's JSON: `rows` of bytes, ms, GB/s in place, and what was expected."""
    rows = [
        (row["size"], row["in_place"]["time"] / 1e3, row["in_place"]["bus_bw"])
        for row in result["results"]
    ]
    own = result["muster"]
    known = {name: own[name] for name in ("backend", "world")}
    return {**known, "rows": rows, "expected": own.get("expected", {})}


def of_pair(pair: Pair, told: Mapping[str, Told]) -> Trial:
    """What two hosts have shown together."""
    both = [told.get(host, IDLE) for host in pair]
    bad = sorted((one.kind == "late", one.seconds, one.text) for one in both if one.kind != "ok")
    if bad:
        return Trial(pair, bad[0][-1] or "it was not tried")
    ms = largest(both[0])[1] if both[0].figures.get("rows") else 0.0
    return Trial(pair, ms=ms) if ms else Trial(pair, "it told nothing")


def of_beside(told: Mapping[str, Told], refused: Container[str]) -> dict[str, dict[str, Finding]]:
    """What the hosts have found out beside a world, by check and host."""
    found: dict[str, dict[str, Finding]] = {}
    for host, one in told.items():
        for name, packed in one.figures.get("beside", {}).items():
            if name not in refused:
                found.setdefault(name, {})[host] = Finding(*packed)
    return found


def largest(told: Told) -> tuple[int, float, float]:
    """Bytes, ms and GB/s of the largest size. Raises IndexError or KeyError where nothing was told."""
    size, ms, busbw = told.figures["rows"][-1]
    return int(size), float(ms), float(busbw)


def of_world(told: Told, ranks: int) -> Finding:
    """What a world's ranks on one host have seen, whatever their speed."""
    if told.kind == "idle":
        return skipped("this host's group does not train")
    if told.kind in ("absent", "broken"):
        return unknown(told.text)
    if told.kind != "ok":
        return Finding("FAIL", told.text, _REMEDY)
    return passed(_shown(told) or f"{ranks} ranks have had what they should")


def of_job(
    told: Mapping[str, Told], ranks: int, *, table: bool = False, named: bool = False
) -> dict[str, Finding]:
    """What each host has seen of the world of all of them; the speed counts where rank 0 is.

    Args:
        told: by host.
        ranks: of the job.
        table: whether public numbers are about such a job: all GPUs of hosts that are alike.
        named: whether the user has named a run to hold it against.
    """
    found = {host: of_world(one, ranks) for host, one in told.items()}
    for host, one in told.items():
        if found[host].status == "PASS" and one.figures.get("rows"):
            found[host] = _against_expected(one, table=table, named=named)
    return found


def _against_expected(told: Told, *, table: bool, named: bool) -> Finding:
    """The bandwidth against what is known of such a job; the verdict says from where."""
    shown = _shown(told)
    size, _, busbw = largest(told)
    known = told.figures.get("expected")
    if not known:
        return passed(shown)
    if known["kind"] == "unreadable" or (named and known["expected"] is None):
        return Finding("WARN", f"{shown}; not judged: {known['reason']}", _NO_BASELINE)
    if why := _not_comparable(known, size, table=table):
        return passed(f"{shown}; not judged: {why}")
    remedy = (_EFA if told.figures["backend"] == "nccl" else "") + _SLOW
    origin = f"{known['kind']}: {known['source']}, {known['date']}"
    evidence = f"{shown}; expected {known['expected']:.4g} GB/s ({origin})"
    if busbw < known["floor"]:
        wrong = f"{evidence}, and below {known['floor']:.4g} something is wrong"
        return Finding("FAIL", wrong, remedy)
    if busbw < known["warn"]:
        return Finding("WARN", f"{evidence}, and {known['warn']:.4g} is worth a look", remedy)
    return passed(evidence)


def _not_comparable(known: Mapping[str, Any], size: int, *, table: bool) -> str:
    """Why nothing can be said of a bandwidth; empty where something can."""
    if known["expected"] is None or known["size"] != size:
        return known["reason"] or "no number is known for it"
    if known["kind"] != "recorded" and not table:
        return "public numbers are about all GPUs of hosts that are alike"
    return ""


def of_hosts(
    told: Mapping[str, Told], limits: Limits, kinds: Mapping[str, Any]
) -> dict[str, Finding]:
    """What each host has seen alone, and how its time stands to that of others of its kind.

    Args:
        told: by host.
        limits: what is slow.
        kinds: of the hosts: only those of one kind are compared.
    """
    found = {host: of_world(one, 0) for host, one in told.items()}
    times = {host: largest(one)[1] for host, one in told.items() if one.figures.get("rows")}
    for host, ms in times.items():
        alike = [times[other] for other in times if kinds.get(other) == kinds.get(host)]
        if found[host].status == "PASS":
            evidence, median = found[host].evidence, statistics.median_low(alike)
            found[host] = _relative(evidence, ms, median, "hosts like it", limits)
    return found


def of_burns(
    told: Mapping[str, Told], limits: Limits, kinds: Mapping[str, Any]
) -> dict[str, Finding]:
    """What each host's ranks have computed, and how long a product took them, against all ranks on such hosts.

    Args:
        told: by host.
        limits: what is slow.
        kinds: of the hosts: only ranks on those of one kind are compared.
    """
    ranks = {host: one.figures["ranks"] for host, one in told.items() if one.figures.get("ranks")}
    found = {host: _burnt(one) for host, one in told.items()}
    for host, each in ranks.items():
        alike = [
            rank for other in ranks if kinds.get(other) == kinds.get(host) for rank in ranks[other]
        ]
        median = statistics.median_low([ms for ms, _ in alike])
        parts = [
            _relative(f"rank {i}", ms, median, "ranks", limits) for i, (ms, _) in enumerate(each)
        ]
        told_apart = [part for part in parts if part.status != "PASS"]
        told_apart += _wrong(each, Counter(digest for _, digest in alike))
        times = f"{min(ms for ms, _ in each):.2f} to {max(ms for ms, _ in each):.2f} ms a product"
        ranks_here = counted(len(each), "rank")
        found[host] = combined(told_apart) if told_apart else passed(f"{ranks_here}, {times}")
    return found


def _burnt(told: Told) -> Finding:
    finding = of_world(told, 0)
    wrong = finding.status == "FAIL" and _WRONG in told.text
    return replace(finding, remedy=_BURNT) if wrong else finding


def _wrong(ranks: Sequence[tuple[float, int]], digests: Counter[int]) -> list[Finding]:
    """What is wrong with the products of a host's ranks, which should be those of all ranks of the job."""
    (right, most), *others = digests.most_common()
    if others and most * 2 <= digests.total():
        return [Finding("FAIL", "the ranks' products differ, and no two alike are most", _BURNT)]
    return [
        Finding("FAIL", f"rank {i}: its products are not those of most ranks of the job", _BURNT)
        for i, (_, digest) in enumerate(ranks)
        if digest != right
    ]


def _relative(said: str, ms: float, median: float, of: str, limits: Limits) -> Finding:
    if ms <= limits.warn * median or not median:
        return passed(said)
    status: Status = "FAIL" if ms > limits.fail * median else "WARN"
    return Finding(
        status, f"{said}: {ms:.2f} ms, {ms / median:.1f} times the median of all {of}", _LAGS
    )


def _shown(told: Told) -> str:
    rows = told.figures.get("rows")
    if not rows:
        return ""
    size, ms, busbw = largest(told)
    over = f"over {counted(told.figures['world'], 'rank')} by {told.figures['backend']}"
    text = f"{_size(size)} {over}: {ms:.1f} ms, busbw {busbw:.2f} GB/s"
    smaller = [f"{_size(int(size))} {busbw:.2f}" for size, _, busbw in rows[:-1]]
    return text + (f" ({', '.join(smaller)})" if smaller else "")


def _size(count: int) -> str:
    return f"{count // _MIB}M" if count >= _MIB else f"{count // 1024}K"
