from __future__ import annotations

import textwrap

import pytest


@pytest.fixture
def code(tmp_path_factory):
    """A function that puts a script into a fresh code folder and returns the folder."""

    def write(script: str, name: str = "train.py"):
        folder = tmp_path_factory.mktemp("code")
        (folder / name).write_text(textwrap.dedent(script), encoding="utf-8")
        return folder

    return write
