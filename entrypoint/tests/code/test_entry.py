import os
import shutil
import subprocess
import sys

import pytest

from muster.code.entry import Entry, find_entry, find_installed, find_python
from muster.errors import CodeError


def python() -> str:
    return "/usr/bin/python"


@pytest.mark.parametrize(
    ("name", "content", "mode", "command"),
    [
        ("train.py", "", 0o644, ("PYTHON", "PATH")),
        ("train.py", "#!/usr/bin/env python\n", 0o755, ("PYTHON", "PATH")),
        ("my script.py", "\r\n", 0o644, ("PYTHON", "PATH")),
        ("run.sh", "#!/bin/bash\n", 0o755, ("PATH",)),
        ("run.sh", "#!/bin/bash\n", 0o644, ("/bin/bash", "PATH")),
        ("run.sh", "#! /bin/bash  -e -u \n", 0o644, ("/bin/bash", "-e -u", "PATH")),
        ("run.sh", "#!/usr/bin/env bash\n", 0o644, ("/usr/bin/env", "bash", "PATH")),
        ("run.sh", "echo\n", 0o755, ("/bin/sh", "PATH")),
        ("run.sh", "#!\n", 0o755, ("/bin/sh", "PATH")),
        ("run.sh", "", 0o755, ("/bin/sh", "PATH")),
        ("program", "#!/bin/sh\n", 0o755, ("PATH",)),
        ("program", "#!/bin/sh\n", 0o644, ("/bin/sh", "PATH")),
    ],
)
def test_command_by_kind(opt_ml, name: str, content: str, mode: int, command: tuple[str, ...]):
    """Python runs .py files, the kernel what it can run, a script without the x bit its own interpreter,
    and /bin/sh any other .sh file."""
    path = str(opt_ml.file(name, content, mode))
    expected = tuple({"PYTHON": python(), "PATH": path}.get(word, word) for word in command)
    is_python = name.endswith(".py")
    assert find_entry(str(opt_ml.base), name, python) == Entry(expected, is_python)


PIP_LONG = "#!/bin/sh\n'''exec' \"/a b/bin/python3\" \"$0\" \"$@\"\n' '''\n"


@pytest.mark.parametrize(
    ("content", "is_python"),
    [
        (f"#!{sys.executable}\n", True),
        ("#!/usr/bin/env python3\n", True),
        ("#!/usr/bin/env -S python3 -u\n", True),
        (PIP_LONG, True),
        ("#!/usr/bin/env bash\n", False),
        ("#!/bin/sh\n# python\nexec python train.py\n", False),
    ],
    ids=["python", "env", "env-S", "pip-long", "bash", "sh-starts-python"],
)
def test_a_python_script_without_py(opt_ml, content, is_python):
    """A script whose #! line names Python runs as ranks, as a .py file does, under the Python that it names."""
    path = str(opt_ml.file("tool", content, 0o755))
    assert find_entry(str(opt_ml.base), "tool", python) == Entry((path,), is_python)


def test_a_command_on_path(opt_ml):
    """A program's name that is in no code folder is a command, if PATH has it and it is no script's name."""
    tool = str(opt_ml.file("bin/all_thing_perf", f"#!{sys.executable}\n", 0o755))
    shell = str(opt_ml.file("bin/sweep-all", "#!/bin/sh\n", 0o755))
    opt_ml.file("bin/plain_perf", f"#!{sys.executable}\n", 0o644)
    opt_ml.file("bin/run.sh", "#!/bin/sh\n", 0o755)
    env = {"PATH": f"{opt_ml.base}/bin"}

    def here() -> str:
        return sys.executable

    assert find_installed("all_thing_perf", here, env) == Entry((tool,), is_python=True)
    assert find_installed("sweep-all", here, env) == Entry((shell,), is_python=False)
    for absent in ("plain_perf", "run.sh", "bin/sweep-all", "nothing_perf"):
        assert find_installed(absent, here, env) is None


@pytest.mark.parametrize("name", ["train", "muster", "muster-rank"])
def test_the_harness_never_starts_itself(opt_ml, name):
    """Its own commands are on PATH in every image; a job whose script of that name is missing has none."""
    opt_ml.file(f"bin/{name}", f"#!{sys.executable}\n", 0o755)
    assert find_installed(name, lambda: sys.executable, {"PATH": f"{opt_ml.base}/bin"}) is None


@pytest.mark.parametrize(
    ("files", "program", "command"),
    [
        (["pkg/train.py"], "pkg.train", ("-m", "pkg.train")),
        (["train.py"], "train", ("-m", "train")),
        (["pkg/train/__main__.py"], "pkg.train", ("-m", "pkg.train")),
        (["train/__main__.py"], "train", ("BASE/train",)),
        (["pkg/train/__main__.py"], "./pkg/train", ("BASE/pkg/train",)),
        (["process/train.py"], "process/train", ("BASE/process/train.py",)),
        (["train.py", "train/__main__.py"], "train", ("BASE/train",)),
        (["pkg.train", "pkg/train.py"], "pkg.train", None),
        (["pkg/__main__.py", "pkg/__init__.py"], "pkg", ("-m", "pkg")),
        (["pkg/__main__.py", "pkg/__init__.py"], "./pkg", ("BASE/pkg",)),
        (["train/other.py"], "train", ()),
        (["train.pyc"], "train", ()),
        (["pkg/train.py"], "pkg.Train", ()),
        (["pkg/train.py"], "pkg..train", ()),
        (["pkg/train.py"], "pkg.train.py", ()),
    ],
)
def test_folders_and_modules(opt_ml, files, program, command):
    """A file of the very name first, then a folder with a __main__.py, then the file with .py, then a module."""
    for name in files:
        opt_ml.file(name, "#!/bin/sh\n" if name == "pkg.train" else "", 0o755)
    found = find_entry(str(opt_ml.base), program, python)
    if command is None:
        assert found == Entry((f"{opt_ml.base}/pkg.train",), is_python=False)
    elif command:
        words = tuple(word.replace("BASE", str(opt_ml.base)) for word in command)
        assert found == Entry((python(), *words), is_python=True)
    else:
        assert found is None


def test_a_module_and_a_folder_run(opt_ml):
    """What is found is what runs, from the code's folder."""
    opt_ml.file("pkg/train.py", "from pkg import other\nprint(other.x)")
    opt_ml.file("pkg/other.py", "x = 7")
    opt_ml.file("tool/__main__.py", "import beside\nprint(beside.x)")
    opt_ml.file("tool/beside.py", "x = 8")
    for program, printed in (("pkg.train", b"7\n"), ("tool", b"8\n")):
        found = find_entry(str(opt_ml.base), program, lambda: sys.executable)
        assert found
        done = subprocess.run(found.command, capture_output=True, check=True, cwd=opt_ml.base)
        assert done.stdout == printed


@pytest.mark.parametrize(
    ("content", "mode"), [("just text\n", 0o755), ("", 0o755)], ids=["no #! line", "empty"]
)
def test_what_cannot_be_started_is_refused(opt_ml, content: str, mode: int):
    """A file that no one could start is refused before anything runs, with what to do."""
    path = opt_ml.file("program", content, mode)
    with pytest.raises(CodeError, match=f"{path} is no .py or .sh file") as error:
        find_entry(str(opt_ml.base), "program", python)
    assert "chmod +x" in error.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "what", "remedy"),
    [
        ("run.sh", "#!/bin/bash\r\necho\r\n", "Windows line ends", "sed -i 's/\\r$//' run.sh"),
        ("run.sh", "echo\r\n", "Windows line ends", "sed -i 's/\\r$//' run.sh"),
        ("launch", "#!/bin/bash\r\n", "Windows line ends", "sed"),
        (
            "run.sh",
            "#!/no/such/zsh\n",
            "begins with #!/no/such/zsh, and there is no such",
            "#!/bin/sh",
        ),
    ],
)
def test_scripts_that_the_kernel_would_misname(opt_ml, name, content, what, remedy):
    """`No such file or directory` would be said of the script: here the true reason is."""
    opt_ml.file(name, content, 0o755)
    with pytest.raises(CodeError, match=what) as error:
        find_entry(str(opt_ml.base), name, python)
    assert remedy in error.value.remedy


def test_a_binary(tmp_path):
    """A copied program of the system runs by the command that was made for it; without its x bit it is refused."""
    path = tmp_path / "program"
    shutil.copy("/bin/echo", path)
    found = find_entry(str(tmp_path), "program", python)
    assert found == Entry((str(path),), is_python=False)
    assert subprocess.run([*found.command, "hi"], capture_output=True, check=True).stdout == b"hi\n"
    path.chmod(0o644)
    with pytest.raises(CodeError, match="without the x bit"):
        find_entry(str(tmp_path), "program", python)


def test_the_chosen_python():
    """The chosen interpreter is used, by its path or by its name."""
    assert find_python(sys.executable, {}) == sys.executable
    folder, name = os.path.split(sys.executable)
    assert find_python(name, {"PATH": folder}) == sys.executable


def test_python3_before_python(opt_ml):
    """The first Python on PATH is taken, python3 before python, never the harness's own."""
    python = opt_ml.file("bin/python", "", 0o755)
    env = {"PATH": str(python.parent)}
    assert find_python(None, env) == str(python)
    python3 = opt_ml.file("bin/python3", "", 0o755)
    assert find_python(None, env) == str(python3)


@pytest.mark.parametrize("chosen", [None, "python9"])
def test_no_python_is_an_error(tmp_path, chosen: str | None):
    """Without an interpreter the error names what was looked for, and the variable that helps."""
    with pytest.raises(CodeError, match=chosen or "python3 and python") as error:
        find_python(chosen, {"PATH": str(tmp_path)})
    assert "MUSTER_PYTHON" in error.value.remedy
