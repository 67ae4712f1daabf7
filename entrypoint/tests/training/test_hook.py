"""The error hook in a real Python, loaded as in a rank: by the wheel's own muster.pth."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

POOL = """
import multiprocessing, sys

def work(number):
    raise ValueError("in the worker")

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    process = context.Process(target=work, args=(1,))
    process.start()
    process.join()
    print(process.exitcode)
    if sys.argv[2:]:
        with context.Pool(1) as pool:
            pool.map(work, [1])
"""


@dataclass(frozen=True)
class Child:
    """A Python that has ended, and the error records that it left."""

    status: int
    pid: int
    out: str
    err: str
    records: list[dict[str, Any]]


@pytest.fixture
def python(clean_env, tmp_path) -> Callable[..., Child]:
    """Return a function that runs a script as a rank would."""
    folder = tmp_path / "errors"
    folder.mkdir()

    def run(code: str, *words: str, error_dir: Path | None = folder) -> Child:
        script = tmp_path / "train.py"
        script.write_text(code)
        env = clean_env | ({"MUSTER_ERROR_DIR": str(error_dir)} if error_dir else {})
        with subprocess.Popen(
            [sys.executable, script, *words],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            out, err = process.communicate(timeout=30)
        paths = sorted(folder.iterdir())
        assert all(path.name.endswith(".error.json") for path in paths)
        records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        return Child(process.returncode, process.pid, out, err, records)

    return run


def test_an_uncaught_exception_is_written_down(python):
    """Type, message, traceback, time and process of the exception are in the record."""
    child = python("def fit():\n    raise ValueError('bad label 7')\nfit()\n")
    (record,) = child.records
    assert set(record) == {"type", "message", "traceback", "time", "pid", "ppid"}
    assert (record["type"], record["message"]) == ("ValueError", "bad label 7")
    assert (record["pid"], record["ppid"]) == (child.pid, os.getpid())
    assert abs(record["time"] - time.time()) < 30
    assert 'train.py", line 2, in fit' in record["traceback"]
    assert record["traceback"].endswith("ValueError: bad label 7\n")


def test_nothing_else_changes(python):
    """Status, stdout and stderr are those of a Python without the hook."""
    code = "print('x')\nraise ValueError('bad')\n"
    child, without = python(code), python(code, error_dir=None)
    assert child.status == without.status == 1
    assert (child.out, child.err) == (without.out, without.err)
    assert "Traceback (most recent call last)" in child.err


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('a text')", 1),
        ("raise SystemExit", 0),
        ("import os; os._exit(4)", 4),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", 0),
        ("raise KeyboardInterrupt", -2),
        ("import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", 0),
    ],
)
def test_no_record_without_an_uncaught_exception(python, code: str, status: int):
    """An exit, a caught exception, Ctrl-C or a thread's end is nothing to write down."""
    child = python(code)
    assert (child.status, child.records) == (status, [])


@pytest.mark.parametrize(
    "replace",
    [
        "sys.excepthook = lambda *_: None",
        "sys.excepthook = lambda *_: print('mine')",
        "sys.excepthook = sys.__excepthook__",
    ],
)
def test_a_replaced_hook_loses_nothing(python, replace: str):
    """A library that puts its own hook in place of this one still leaves the record."""
    child = python(f"import sys\n{replace}\nraise ValueError('bad label 7')\n")
    assert [record["message"] for record in child.records] == ["bad label 7"]


def test_a_hook_around_it_is_kept(python):
    """A library's hook that calls the one before it sees the exception once."""
    child = python(
        "import sys\nbefore = sys.excepthook\n"
        "def mine(*args):\n    print('mine')\n    before(*args)\n"
        "sys.excepthook = mine\nraise ValueError('x')\n"
    )
    assert child.out == "mine\n"
    assert child.err.count("ValueError: x") == 1
    assert len(child.records) == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_process_is_its_parents_matter(python, method: str):
    """A worker of multiprocessing that fails leaves no record, whichever way it was started."""
    child = python(POOL, method)
    assert (child.status, child.out) == (0, "1\n")
    assert child.records == []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_workers_error_that_the_parent_raises(python, method: str):
    """A worker's exception that comes up in the parent is the parent's, and written once."""
    child = python(POOL, method, "pool")
    (record,) = child.records
    assert (record["type"], record["message"]) == ("ValueError", "in the worker")
    assert record["pid"] == child.pid


def test_a_forked_child_does_not_speak(python):
    """A child of os.fork that fails leaves no record in its parent's name or its own."""
    child = python("import os\nif os.fork() == 0:\n    raise ValueError('child')\nos.wait()\n")
    assert (child.status, child.records) == (0, [])


def test_a_python_below_has_its_own_record(python):
    """A Python that the script starts writes its own record, with the script as its parent."""
    child = python(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'raise KeyError(\"inner\")'], check=True)\n"
    )
    by_type = {record["type"]: record for record in child.records}
    assert set(by_type) == {"KeyError", "subprocess.CalledProcessError"}
    assert by_type["KeyError"]["message"] == "'inner'"
    assert by_type["KeyError"]["ppid"] == child.pid


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("assert False", "AssertionError", ""),
        ("class MyError(Exception): pass\nraise MyError('a: b')", "MyError", "a: b"),
        ("import json; json.loads('x')", "json.decoder.JSONDecodeError", "Expecting value"),
        ("raise ValueError('größe \\ud800')", "ValueError", "größe"),
        ("raise ValueError('one\\ntwo')", "ValueError", "one\ntwo"),
        ("raise FileNotFoundError(2, 'No such file', 'x.npz')", "FileNotFoundError", "[Errno 2]"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth"),
        ("import no_such_module", "ModuleNotFoundError", "No module named 'no_such_module'"),
        ("raise ValueError from KeyError('x')", "ValueError", ""),
    ],
)
def test_type_and_message(python, code: str, kind: str, message: str):
    """Type and message are those that Python prints, of any exception."""
    (record,) = python(code).records
    assert record["type"] == kind
    assert record["message"].startswith(message)
    assert bool(record["message"]) == bool(message)


def test_a_syntax_error(python, tmp_path):
    """A module that can't be compiled is a SyntaxError, not the place where it is."""
    (tmp_path / "broken.py").write_text("def f(:\n")
    (record,) = python("import broken\n").records
    assert record["type"] == "SyntaxError"
    assert record["message"]
    assert 'broken.py", line 1' in record["traceback"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_notes_belong_to_the_message(python):
    """An exception's notes are told after its message."""
    code = "error = ValueError('bad')\nerror.add_note('in shard 7')\nraise error\n"
    (record,) = python(code).records
    assert (record["type"], record["message"]) == ("ValueError", "bad\nin shard 7")


def test_an_exception_that_cannot_be_printed(python):
    """An exception whose text can't be made is recorded all the same."""
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad\n"
    child = python(code)
    assert child.status == 1
    assert [record["type"] for record in child.records] == ["Bad"]


def test_long_texts_are_cut(python):
    """Of a long message the start is kept, of a long traceback the end; a record stays small."""
    code = "def f(n):\n    if n: f(n - 1)\n    raise ValueError('start ' + 'x' * 100_000)\nf(200)\n"
    (record,) = python(code).records
    assert record["message"].startswith("start xxx")
    assert len(json.dumps(record)) < 20_000


def test_the_cause_is_in_the_traceback(python):
    """A chain of exceptions is told whole, the last one as the record's own."""
    code = (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise OSError('x') from error\n"
    )
    (record,) = python(code).records
    assert (record["type"], record["message"]) == ("OSError", "x")
    assert "ZeroDivisionError" in record["traceback"]


def test_a_folder_that_is_gone(python, tmp_path):
    """Where the record can't be written the script ends as it would have, without a second error."""
    child = python("raise ValueError('bad')\n", error_dir=tmp_path / "gone")
    assert child.status == 1
    assert child.err.rstrip().endswith("ValueError: bad")
    assert child.err.count("Traceback") == 1


def test_without_a_harness_there_is_no_hook(python):
    """Outside a job nothing of muster is loaded, and no hook is set."""
    code = (
        "import sys\n"
        "print([name for name in sys.modules if name.startswith('muster')])\n"
        "print(sys.excepthook is sys.__excepthook__)\n"
    )
    assert python(code, error_dir=None).out == "[]\nTrue\n"


def test_the_hook_loads_no_heavy_modules(python):
    """The hook is paid by every Python below a rank: it loads nothing that Python hasn't."""
    child = python("import sys; print('json' in sys.modules, 'traceback' in sys.modules)")
    assert child.out == "False False\n"
