"""A run from its flags to its exit status. Effects: those of the world, the buffers, and rank 0's output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, product
from typing import Any

from muster_perf import byhost, report, results, sizes, table
from muster_perf.clock import Clock
from muster_perf.errors import FAILED, OK, REFUSED, PerfError
from muster_perf.flags import Flags
from muster_perf.gate import Gate, read_minimum
from muster_perf.memory import available
from muster_perf.operations import Operation
from muster_perf.values import Case
from muster_perf.world import World, describe, identify, join, leave

_STAMP = "%Y-%m-%d %H:%M:%S"


def run(operation: Operation, flags: Flags, env: Mapping[str, str], argv: Sequence[str]) -> int:
    """Measures; the status is the same on every rank.

    Args:
        operation: the collective.
        flags: what the user asked for.
        env: the process's variables.
        argv: the command, for the JSON file.

    Raises:
        PerfError: it can't be run as asked.
    """
    minimum, wanted = read_minimum(env), _wanted(flags, env)
    identity = identify(env)
    clock = Clock()
    import torch  # noqa: F401, PLC0415  (counted apart: it is most of the start)

    clock.lap("start and imports")
    world = join(flags, identity, env)
    try:
        _refuse_small(world, wanted)
        session = _Session(operation, flags, world, Gate(minimum, world.size), clock)
        status = session.run(env, argv)
    except PerfError:
        leave()
        raise
    # Not after anything else: other ranks may wait in a call, and leaving would wait for them.
    leave()
    return status


class _Session:
    """The ranks have met: what they do then."""

    def __init__(
        self, operation: Operation, flags: Flags, world: World, gate: Gate, clock: Clock
    ) -> None:
        self._operation = operation
        self._world = world
        self._gate = gate
        self._clock = clock
        self._rows: list[table.Row] = []
        self._cases = _cases(operation, flags, world.size)
        self._devices = world.texts(describe(world))
        self._names = world.texts(world.host)
        self._flags, self._reduced = self._fit_memory(flags)
        clock.lap("meeting")

    def run(self, env: Mapping[str, str], argv: Sequence[str]) -> int:
        flags, gate, began = self._flags, self._gate, time.strftime(_STAMP)
        path = self._claim()
        self._say(report.head(self._operation, flags, self._world, self._devices))
        self._say(self._reduced)
        tried = self._try()
        self._say(report.notes(self._operation, self._world, lists=any(one for _, one in tried)))
        self._say(report.outlook(self._operation, flags, self._names, env))
        self._say(table.header(timestamps=flags.report_timestamps))
        self._sweep(tried)
        command, verdict = self._operation.command, gate.verdict
        self._say(table.footer(command, gate.wrong, gate.average, verdict))
        view = self._look_at_hosts() if flags.by_host else None
        self._say([*gate.lines(), self._clock.line(), "#", ""])
        if path:
            facts = report.facts(self._operation, flags, self._world, self._names, env, view)
            self._write(path, began, argv, facts)
        if problem := gate.problem():
            print(f"{command}: {problem}", file=sys.stderr, flush=True)
            return FAILED
        return OK

    def _say(self, lines: Sequence[str]) -> None:
        """Prints on rank 0, at once: a sweep takes minutes."""
        if self._world.rank == 0:
            for line in lines:
                print(line, flush=True)

    def _fit_memory(self, flags: Flags) -> tuple[Flags, list[str]]:
        """Makes the largest size smaller where any rank's memory demands it. The same on every rank."""
        own = available(self._world, self._names.count(self._world.host))
        least = min(free for (free,) in self._world.exchange(float(own)))
        # Two buffers, and some room for blocks and lists; the view by host has two more.
        largest = int(least / (4 if flags.by_host else 2.5)) // 16 * 16
        if flags.maxbytes <= largest:
            return flags, []
        told = [f"#\n# Reducing maxBytes to {largest} due to memory limitation"]
        return replace(flags, maxbytes=largest, minbytes=min(flags.minbytes, largest)), told

    def _claim(self) -> str | None:
        """The file for the results, made before anything is measured in vain."""
        asked = self._flags.output_file
        if self._world.rank or not asked:
            return None
        path = results.claim(asked)
        found = f"Writing JSON output to {path}"
        self._say([f"# {found if path else f'skipping json output; {asked} not accessible'}"])
        return path

    def _write(self, path: str, began: str, argv: Sequence[str], facts: Mapping[str, Any]) -> None:
        gate, flags = self._gate, self._flags
        document = {
            "version": results.VERSION,
            "start_time": began,
            "args": list(argv),
            "nccl_version": report.nccl_version(self._world),
            "config": results.config(flags, self._devices),
            "results": [results.result(row, flags.iters) for row in self._rows],
            **results.summary(gate.wrong, gate.average, gate.verdict),
            "errors": [],
            "end_time": time.strftime(_STAMP),
            "muster": {**facts, "seconds": self._clock.seconds},
        }
        try:
            results.write(path, document)
        except OSError as error:
            raise PerfError(f"{path} can't be written: {error.strerror}") from error

    def _try(self) -> list[tuple[Case, bool]]:
        """Calls each case once. Of `-o all` and `-d all` those stay that the backend has.

        Raises:
            PerfError: the backend lacks what was asked for.
        """
        from muster_perf.calls import choose_lists  # noqa: PLC0415  (torch has been imported)

        tried, lacking = [], []
        for case in self._cases:
            try:
                tried.append((case, choose_lists(case, self._world)))
            except PerfError as error:
                lacking.append(error)
        if lacking and not (tried and "all" in (self._flags.op, self._flags.datatype)):
            raise lacking[0]
        # The same for every root.
        self._say(list(dict.fromkeys(f"# skipped: {error.what}" for error in lacking)))
        self._clock.lap("first calls")
        return tried

    def _sweep(self, cases: Sequence[tuple[Case, bool]]) -> None:
        from muster_perf.calls import Buffers  # noqa: PLC0415
        from muster_perf.measure import Bench  # noqa: PLC0415

        flags, world = self._flags, self._world
        buffers = Buffers(flags.maxbytes, world.device)
        self._clock.lap("buffers")
        for case, as_list in cases:
            bench = Bench(world, flags, buffers, case, as_list)
            for size in sizes.warm_up(flags):
                bench.warm_up(size)
            for _ in _cycles(flags.run_cycles):
                for size in sizes.sweep(flags):
                    row = bench.measure(size)
                    self._rows.append(row)
                    self._gate.add(row)
                    stamp = time.strftime(_STAMP) if flags.report_timestamps else None
                    self._say([table.row(row, stamp)])
            for name, seconds in bench.seconds.items():
                self._clock.add(name, seconds)
        self._clock.skip()

    def _look_at_hosts(self) -> byhost.HostView:
        view = byhost.look(self._world, self._names, self._flags.maxbytes, self._flags.iters)
        self._say(byhost.lines(view))
        self._clock.lap("by host")
        return view


def _wanted(flags: Flags, env: Mapping[str, str]) -> int:
    text = env.get("MUSTER_EXPECT_WORLD", "")
    if text and not text.isdecimal():
        raise PerfError(f"MUSTER_EXPECT_WORLD={text} is no number of ranks", "", REFUSED)
    return flags.world or int(text or 0)


def _refuse_small(world: World, wanted: int) -> None:
    if world.size < wanted:
        what = f"{world.size} ranks have met, {wanted} were asked for"
        raise PerfError(what, "Has one launcher started all of them, on all hosts?")


def _cases(operation: Operation, flags: Flags, ranks: int) -> list[Case]:
    if operation.rooted and not -1 <= flags.root < ranks:
        raise PerfError(f"-r {flags.root}: there are {ranks} ranks", "", REFUSED)
    every = operation.rooted and flags.root < 0
    roots: Sequence[int] = range(ranks) if every else (flags.root if operation.rooted else 0,)
    ops = flags.ops if operation.reduces else ("sum",)
    return [
        Case(operation, op, type_, ranks, root)
        for type_, op, root in product(flags.types, ops, roots)
    ]


def _cycles(number: int) -> Iterator[Any]:
    return iter(range(number)) if number else count()
