"""Every way in which a container of ours may be started."""

from __future__ import annotations

import subprocess

import pytest
from engine import IMAGE, docker

pytestmark = pytest.mark.docker

NO_PROGRAM = "the job names no entry point"


def run(*words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return docker("run", "--rm", "--network", "none", *words, timeout=timeout, check=False)


@pytest.mark.parametrize("words", [[], ["train"]], ids=["no-argument", "train"])
def test_without_a_job_it_says_what_is_missing(words):
    """`docker run IMAGE` and `docker run IMAGE train` name the three ways to name a script."""
    done = run(IMAGE, *words)
    assert done.returncode == 70
    assert NO_PROGRAM in done.stderr
    assert "SAGEMAKER_PROGRAM" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("init", [(), ("--init",)], ids=["as-pid-1", "under-an-init"])
def test_a_script_of_the_command_line_is_a_job(init, tmp_path):
    """`docker run IMAGE train SCRIPT ARGS` runs it, as PID 1 and below another init."""
    (tmp_path / "hello.py").write_text("import sys; print('hello', sys.argv[1:]); sys.exit(5)")
    done = run(*init, "-v", f"{tmp_path}:/job", IMAGE, "train", "/job/hello.py", "--x", "a b")
    assert done.returncode == 5, done.stderr
    assert "hello ['--x', 'a b']" in done.stdout


def test_torchrun_is_run_as_itself():
    """Any other command takes the harness's place."""
    done = run(IMAGE, "torchrun", "--help")
    assert done.returncode == 0, done.stderr
    assert "--nproc-per-node" in done.stdout


def test_python_is_the_users():
    """`python` is the one with torch, and status and output pass through."""
    done = run(IMAGE, "python", "-c", "import sys, torch; print(torch.__version__); sys.exit(3)")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("2.13.0")


def test_serve_says_what_the_image_is_for():
    """An endpoint on a training image is a mistake that is told, not a hang."""
    done = run(IMAGE, "serve")
    assert done.returncode == 2
    assert "it does not serve them" in done.stderr


def test_another_entrypoint_still_finds_everything():
    """With /bin/bash as the entrypoint, as ModelTrainer sets it, the commands are on PATH."""
    script = "train; echo status $?; command -v muster muster-rank torchrun python3 pip tar gzip"
    done = run("--entrypoint", "/bin/bash", IMAGE, "-c", script)
    assert done.returncode == 0, done.stderr
    assert "status 70" in done.stdout
    assert NO_PROGRAM in done.stderr
    assert len(done.stdout.splitlines()) == 8


def test_an_unknown_command_is_named():
    """A typing error gives one line and the shell's own status for it."""
    done = run(IMAGE, "trian")
    assert done.returncode == 127
    assert "muster: trian: neither a command of muster nor a program here" in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--read-only", "--tmpfs", "/tmp"), 5, "can't be made or written: Read-only file system"),
        (("--user", "1000:1000"), 5, "can't be made or written: Permission denied"),
    ],
    ids=["read-only", "another-user"],
)
def test_a_container_that_may_not_write_still_runs(options, status, said, tmp_path):
    """Without a writable /opt/ml the script runs all the same, and the log says what is lost."""
    script = tmp_path / "hello.py"
    script.write_text("import sys; print('hello'); sys.exit(5)")
    script.chmod(0o644)
    done = run(*options, "-v", f"{script}:/job/hello.py", IMAGE, "train", "/job/hello.py")
    assert done.returncode == status, done.stderr
    assert "hello" in done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_code_that_another_user_may_not_read_is_told_as_such(tmp_path):
    """Code behind a closed folder is not said to be missing."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    (folder / "hello.py").touch()
    words = ["--user", "1000:1000", "-v", f"{folder}:/job"]
    done = run(*words, IMAGE, "train", "/job/hello.py")
    assert done.returncode == 71
    assert "the entry point /job/hello.py can't be read by user 1000" in done.stderr


def test_exec_mode_leaves_nothing_in_between(tmp_path):
    """MUSTER_EXEC=1 puts the launcher in the harness's place, and the script in the shim's."""
    (tmp_path / "who.py").write_text("import os; print('parent', os.getppid())")
    words = ["-e", "MUSTER_EXEC=1", "-e", "MUSTER_LAUNCHER=plain", "-v", f"{tmp_path}:/job"]
    done = run(*words, IMAGE, "train", "/job/who.py")
    assert done.returncode == 0, done.stderr
    assert "parent 0" in done.stdout
