import os
import sys

import pytest

from muster.toolpath import with_own_venv


@pytest.fixture
def venv(opt_ml, monkeypatch) -> str:
    """Return the folder of programs of a venv in which the harness seems to be."""
    python = opt_ml.file("venv/bin/python", "", 0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return str(python.parent)


def test_a_venv_with_torchrun(venv, opt_ml):
    """A venv that nobody has activated is used when it has torchrun; nothing else changes."""
    opt_ml.file("venv/bin/torchrun", "", 0o755)
    env = {"PATH": "/usr/bin", "A": "b"}
    assert with_own_venv(env) == {"PATH": f"{venv}{os.pathsep}/usr/bin", "A": "b"}
    assert env["PATH"] == "/usr/bin"
    assert with_own_venv({})["PATH"].startswith(f"{venv}{os.pathsep}")


def test_a_venv_without_torchrun(venv):
    """In an image the harness's own venv has no torch, and PATH stays the user's."""
    env = {"PATH": "/opt/venv/bin"}
    assert venv
    assert with_own_venv(env) == env
