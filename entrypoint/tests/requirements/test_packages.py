"""Versions."""

import json
import subprocess
import sys

import pytest

from muster.requirements import packages, probe


def test_what_of_the_images_list_is_kept():
    """torch, what it brings of CUDA, what is compiled for it and numpy; other packages may change."""
    text = (
        "boto3==1.43.0\ncuda-bindings==13.0\nhorovod==0.28.1\nJinja2==3.1.6\nnumpy==2.4.6\n"
        "nvidia_nccl-cu13==2.28\n# torch==1\ntorch===2.13.0+cpu ; python_version > '3'\ntriton==3.7\n"
        "torchmetrics==1.0\n"
    )
    assert packages.pins(text) == {
        "cuda-bindings": "13.0",
        "horovod": "0.28.1",
        "numpy": "2.4.6",
        "nvidia-nccl-cu13": "2.28",
        "torch": "2.13.0+cpu",
        "triton": "3.7",
    }


def test_changes():
    """A change names both versions; what was added or is gone is told, too."""
    before, after = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}
    assert packages.changed(before, after) == ("b 1 -> 2", "c 1 -> gone")
    assert packages.added(before, after) == ("b 2", "d 1")


def test_many_names_are_cut():
    """Eight names are enough."""
    assert packages.short([str(i) for i in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert packages.short(["a", "b"]) == "a, b"


def test_the_rules():
    """What is installed counts more than what the list says; numpy is held to its major version alone."""
    pins = {"torch": "2.13.0+cpu", "numpy": "2.4.6", "horovod": "0.28.1"}
    held = {"torch": "2.12.0", "numpy": "2.5.0"}
    assert probe.rules(pins, held) == {
        "torch": "==2.12.0",
        "numpy": "==2.*",
        "horovod": "==0.28.1",
    }
    assert (
        packages.constraints({"torch": "==2.12.0", "numpy": "==2.*"})
        == "torch==2.12.0\nnumpy==2.*\n"
    )


@pytest.fixture
def look(tmp_path):
    """Return a function that runs the probe as the stage does, on a file's text."""

    def run(text: str, **pins: str) -> packages.Found:
        path = tmp_path / "requirements.txt"
        path.write_text(text)
        answer = tmp_path / "answer.json"
        asked = json.dumps({"file": str(path), "pins": pins, "answer": str(answer)})
        words = [sys.executable, probe.__file__, asked]
        subprocess.run(words, check=True, cwd="/")
        return packages.found_from(json.loads(answer.read_text()))

    return run


def test_the_probe_says_what_is_there(look):
    """Versions by normal names, pip's, and this Python's."""
    found = look("")
    assert found.pip == found.installed["pip"]
    assert found.installed["pytest"] == pytest.__version__
    assert found.python == ".".join(map(str, sys.version_info[:2]))
    assert (found.empty, found.hashes, found.managed) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "empty", "hashes"),
    [
        ("# a comment\n\n--index-url https://x.example\n", True, False),
        ("-e .", False, False),
        ("-r missing.txt", False, False),
        ("--require-hashes\n", True, True),
        ("a==1 \\\n    --hash=sha256:00", False, True),
    ],
)
def test_what_a_file_asks_for(look, text: str, empty: bool, hashes: bool):
    """Options alone ask for nothing; lines go on behind a backslash."""
    found = look(text)
    assert (found.empty, found.hashes) == (empty, hashes)


def test_files_that_include_each_other_end(look, tmp_path):
    """A circle is read once."""
    (tmp_path / "b.txt").write_text("-r requirements.txt\ntorch==1\n")
    found = look("-r b.txt", torch="2")
    assert found.conflicts == ((f"{tmp_path}/b.txt", "torch==1", "torch"),)
