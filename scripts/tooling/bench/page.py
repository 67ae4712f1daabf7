"""The tables of one run, for the terminal and for docs/performance.md. Pure."""

from __future__ import annotations

from tooling.bench.results import CONTENDERS, Measurement, Results
from tooling.bench.targets import verdicts
from tooling.machine import ScriptError
from tooling.tables import table

BEGIN = "<!-- bench: written by `make bench` from here -->\n"
END = "<!-- bench: to here -->\n"
NOTHING = "—"


def _value(measurement: Measurement, name: str) -> str:
    value = measurement.median(name)
    if value is None:
        return NOTHING
    return f"{value:.2f} s" if measurement.unit == "s" else f"{value:.1f} {measurement.unit}"


def _ratio(measurement: Measurement, name: str) -> str:
    ratio = measurement.ratio(name)
    return NOTHING if ratio is None else f"{ratio:.2f}"


def figures(results: Results) -> str:
    """Return the table of medians and ratios."""
    compared = ("muster", "peer")
    titles = ("", *CONTENDERS.values(), *(f"{CONTENDERS[name]} : bare" for name in compared))
    rows = (
        (
            one.title,
            *(_value(one, name) for name in CONTENDERS),
            *(_ratio(one, name) for name in compared),
        )
        for one in results.measurements
    )
    return table(titles, rows)


def targets(results: Results) -> str:
    """Return the table of targets."""
    rows = (
        (one.title, f"at most {one.limit}", one.measured, "met" if one.met else "**not met**")
        for one in verdicts(results)
    )
    return table(("target for muster", "", "measured", ""), rows)


def setting(results: Results) -> str:
    """Return the paragraph that says when, on what and with what."""
    machine = results.machine
    gpus = f"{machine.gpus} GPUs" if machine.gpus else "no GPU"
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    rounds = "one round" if results.rounds == 1 else f"{results.rounds} rounds"
    return (
        f"Measured on {results.date}, on {machine.cores} cores, {machine.memory_gib} GiB, {gpus}.\n"
        f"{rounds[0].upper()}{rounds[1:]}; a figure is the median, a ratio the median of each round's ratio.\n"
        f"Versions: {versions}.\n"
    )


def missing(results: Results) -> str:
    """Return the lists of what was left out and what failed; empty when everything ran."""
    parts = []
    for title, entries in (("Skipped", results.skipped), ("Could not be run", results.failed)):
        if entries:
            lines = (f"- {what}: {why.splitlines()[0]}\n" for what, why in entries.items())
            parts.append(f"{title}:\n\n" + "".join(lines))
    return "\n".join(parts)


def text(results: Results) -> str:
    """Return everything that is generated, in Markdown."""
    parts = [setting(results), figures(results), targets(results), missing(results)]
    return "\n".join(part for part in parts if part)


def put(page: str, generated: str) -> str:
    """Return the page with the text between its two markers replaced.

    Raises:
        ScriptError: a marker is missing.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ScriptError(f"the page lacks its markers: {BEGIN.strip()} and {END.strip()}")
    return f"{head}{BEGIN}\n{generated}\n{END}{tail}"
