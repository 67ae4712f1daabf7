"""Images with a compiler, and what one without says to who needs it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from engine import DEV_IMAGE, IMAGE, docker

pytestmark = pytest.mark.docker

SETUP = """
from setuptools import Extension, setup
setup(name="counted", version="1.0", ext_modules=[Extension("counted", ["counted.cpp"], language="c++")])
"""
SOURCE = """
#include <Python.h>
#include <vector>
static PyObject *count(PyObject *, PyObject *) { return PyLong_FromLong(std::vector<int>{1, 2, 3}.size()); }
static PyMethodDef methods[] = {{"count", count, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "counted", "", -1, methods};
PyMODINIT_FUNC PyInit_counted() { return PyModule_Create(&module); }
"""
INSTALL = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "/opt/ml/code/counted-1.0.tar.gz"], check=True)
import counted
print("counted", counted.count(), flush=True)
"""
COMPILE = """
import torch
print("compiled", torch.compile(lambda x: x.sin() + x.cos())(torch.ones(3)).shape, flush=True)
"""


@pytest.fixture
def code(tmp_path) -> Path:
    """A code folder with an sdist of C++, and a script that installs it as users do."""
    source = tmp_path / "counted-1.0"
    source.mkdir()
    files = {"setup.py": SETUP, "counted.cpp": SOURCE, "PKG-INFO": "Name: counted\nVersion: 1.0\n"}
    for name, text in files.items():
        (source / name).write_text(text, encoding="utf-8")
    folder = tmp_path / "code"
    folder.mkdir()
    with tarfile.open(folder / "counted-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    (folder / "install.py").write_text(INSTALL, encoding="utf-8")
    (folder / "compile.py").write_text(COMPILE, encoding="utf-8")
    return folder


def run(image: str, code: Path, script: str):
    """One rank runs the script, without a network."""
    words = (
        "--rm",
        "--network",
        "none",
        "-v",
        f"{code}:/opt/ml/code",
        "-e",
        "MUSTER_LAUNCHER=plain",
    )
    return docker("run", *words, image, "train", script, timeout=240, check=False)


@pytest.mark.parametrize(
    ("script", "said"), [("install.py", "counted 3"), ("compile.py", "compiled")]
)
def test_the_dev_image_compiles(code, script, said):
    """An sdist of C++ is built and imported, and torch.compile makes code for the processor."""
    done = run(DEV_IMAGE, code, script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout


@pytest.mark.parametrize("script", ["install.py", "compile.py"])
def test_an_image_without_compiler_names_the_one_that_has_it(code, script):
    """The failure text says which tag to take; the reason stays the script's own error."""
    done = run(IMAGE, code, script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "muster kind=user" in done.stderr
    assert "the tag cpu-dev has g++" in done.stderr
