import signal
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.errors import Kind
from muster.launch.outcome import LauncherEnd, decide
from muster.model import Cause, RankEnd
from muster.report.failure import LIMIT, cut_end, cut_start, failure_text, machine_line

MACHINE = "muster kind=user host=algo-2 rank=3 status=1"

texts = st.text(st.characters(), max_size=60) | st.text(max_size=20).map(lambda t: (t + "日") * 60)
causes = st.builds(
    Cause,
    headline=texts,
    kind=st.sampled_from(get_args(Kind)),
    status=st.integers(1, 255),
    host=st.from_regex(r"[a-z0-9.-]{1,253}", fullmatch=True),
    rank=st.none() | st.integers(0, 10**6),
    detail=texts | st.text(max_size=10).map(lambda t: (t + "\n") * 300),
    remedy=texts,
)


def cause(headline: str = "ValueError: bad label 7", detail: str = "", remedy: str = "") -> Cause:
    return Cause(headline, "user", 1, "algo-2", 3, detail, remedy)


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def test_the_whole_text():
    """Line 1 is the root cause, line 2 for machines, line 3 what to do; then where it was."""
    text = failure_text(cause(detail="Traceback:\n  File x\nValueError", remedy="Look at it."))
    assert text.splitlines() == [
        "ValueError: bad label 7",
        MACHINE,
        "Look at it.",
        "Traceback:",
        "  File x",
        "ValueError",
    ]


def test_a_short_text():
    """Without detail and remedy there are two lines, and no empty ones."""
    assert failure_text(cause()) == f"ValueError: bad label 7\n{MACHINE}\n"


def test_the_machine_line_without_a_rank():
    """A failure that belongs to no rank has a dash in the rank's place."""
    line = machine_line(Cause("x", "contract", 70, "-"))
    assert line == "muster kind=contract host=- rank=- status=70"


@given(cause=causes, written=texts | st.just(""))
@example(
    cause=Cause("h" * 400, "user", 1, "algo-1", 0, "detail", "remedy " * 60),
    written="DATA_ERROR " * 100,
)
@example(
    cause=Cause("h" * 400, "requirements", 255, "x" * 253, 10**6, "detail", "remedy " * 60),
    written="DATA_ERROR " * 100,
)
def test_never_more_than_the_platform_shows(cause: Cause, written: str):
    """Whatever the texts are, the file has at most 1024 bytes of valid UTF-8."""
    raw = utf8(failure_text(cause, written))
    assert len(raw) <= LIMIT == 1024
    assert raw.decode()


@given(causes)
def test_the_second_line_is_exact(cause: Cause):
    """Programs find line 2 whole, however long the other texts are."""
    lines = failure_text(cause).split("\n")
    assert machine_line(cause) in lines
    head = lines[: lines.index(machine_line(cause))]
    # One line of cause; Unicode has more line ends than \n, so that it never looks like two.
    assert len(head) == 1
    assert len(head[0].splitlines()) <= 1


@pytest.mark.parametrize(
    "headline",
    [
        "ImportError: \nTokenizer requires the SentencePiece library\nbut it was not found",
        "RuntimeError: \n\n  CUDA error",
    ],
)
def test_a_message_that_begins_with_an_empty_line(headline: str):
    """Line 1 holds the message's first words, also where the message begins on a new line."""
    first = failure_text(cause(headline)).splitlines()[0]
    assert "Tokenizer requires" in first or "CUDA error" in first


@pytest.mark.parametrize("headline", ["", " \n "])
def test_no_headline_is_said(headline: str):
    """A cause without a text still makes a first line."""
    assert failure_text(cause(headline)).splitlines()[:2] == ["no reason is known", MACHINE]


def test_a_long_headline_is_cut_at_its_end():
    """Of a message of 5 KB the start is kept, and the cut is marked."""
    first = failure_text(cause("ValueError: " + "x" * 5000)).splitlines()[0]
    assert first.startswith("ValueError: xxx")
    assert first.endswith("…")


def test_a_long_detail_is_cut_from_the_top():
    """Of a long traceback the last whole lines stay: those are nearest to the error."""
    lines = [f'  File "train.py", line {number}' for number in range(100)]
    kept = failure_text(cause(detail="\n".join(lines))).splitlines()[2:]
    assert 10 < len(kept) < 100
    assert kept == ["…", *lines[-len(kept) + 1 :]]


def test_the_users_own_frames_come_before_torchs():
    """Of an error inside a library the line that the user can change is kept, and the last."""
    library = '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/x.py", line {}, in forward'
    trace = ["Traceback (most recent call last):"]
    trace += ['  File "/opt/ml/code/train.py", line 3, in <module>', "    fit()", "    ^^^^^"]
    for number in range(30):
        trace += [library.format(number), f"    return call_{number}()", "           ^^^^^^^"]
    text = failure_text(cause("RuntimeError: shapes", detail="\n".join(trace)))
    assert text.splitlines()[2:] == [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 3, in <module>',
        "    fit()",
        "…",
        library.format(29),
        "    return call_29()",
    ]


def test_a_long_message_leaves_the_place():
    """Where the error was is told though its message alone would fill the file."""
    message = "ValueError: " + "x" * 5000
    trace = f'Traceback:\n  File "train.py", line 7, in <module>\n    fit()\n{message}'
    assert 'File "train.py", line 7' in failure_text(cause(message, detail=trace))


@given(detail=texts | st.text(max_size=10).map(lambda t: (t + "\n") * 300), headline=texts)
def test_the_remedy_is_kept(detail: str, headline: str):
    """What to do is line 3, whole, however long the traceback is."""
    remedy = "Fix the label file. " * 8
    assert failure_text(cause(headline, detail, remedy)).splitlines()[2] == remedy.strip()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT], ids=str
)
def test_our_own_remedies_fit(number: int):
    """Each remedy that the harness has for a signal is shown whole."""
    outcome = decide("a", [RankEnd(0, 0, 1, -number, 0.0)], LauncherEnd("plain", 1), expected=1)
    assert outcome.cause
    assert outcome.cause.remedy
    assert failure_text(outcome.cause).endswith(f"\n{outcome.cause.remedy}\n")


def test_what_the_script_wrote_stays_first():
    """A failure file of the script's own stays first; the cause follows."""
    text = failure_text(cause(), "DATA_ERROR: shard 7\nsee the wiki\n")
    assert text.splitlines() == [
        "DATA_ERROR: shard 7",
        "see the wiki",
        "ValueError: bad label 7",
        MACHINE,
    ]


@given(written=texts.filter(str.strip), cause=causes)
def test_the_users_text_comes_first_and_the_machine_line_stays(written: str, cause: Cause):
    """The script's text is the start of the file, and line 2 is never cut for it."""
    raw = utf8(failure_text(cause, written))
    start = utf8(written.strip())[:300].decode("utf-8", "ignore")
    assert raw.startswith(utf8(start))
    assert utf8(machine_line(cause)) in raw[:1024]


@pytest.mark.parametrize("written", ["", " \n\t"])
def test_an_empty_file_of_the_scripts_says_nothing(written: str):
    """A failure file without a text does not push the cause from line 1."""
    assert failure_text(cause(), written).startswith("ValueError: bad label 7\n")


@given(texts, st.integers(3, 400))
def test_cutting_the_end(text: str, limit: int):
    """A cut text fits, is the start of the whole one, and its cut is marked."""
    cut = cut_end(text, limit)
    assert len(utf8(cut)) <= limit
    if cut != text:
        assert cut.endswith("…")
        assert utf8(text).startswith(utf8(cut[:-1]))


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1)), st.integers(-5, 400))
def test_cutting_the_start(lines: list[str], limit: int):
    """A text cut from the top fits, and consists of the last whole lines."""
    kept = cut_start("\n".join(lines), limit)
    assert len(utf8(kept)) <= max(0, limit)
    last = kept.splitlines()
    if last != lines:
        assert last[:1] in ([], ["…"])  # The cut is marked.
        del last[:1]
    assert last == lines[len(lines) - len(last) :]
