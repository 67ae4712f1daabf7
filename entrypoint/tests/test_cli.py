import json
import re
import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest


def test_version(muster):
    """`muster --version` prints the name and the version of the wheel."""
    done = muster("--version")
    assert (done.returncode, done.stdout) == (0, f"muster {version('muster')}\n")


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help(muster, words: list[str]):
    """Help names every command; without a word, a person at a prompt gets it too."""
    done = muster(*words)
    assert done.returncode == 0
    for command in ("train", "plan", "local", "serve", "--version"):
        assert re.search(rf"^{command}\b", done.stdout, re.MULTILINE)


def test_serve(muster):
    """`serve` fails and says what this image is for, without a traceback."""
    done = muster("serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert "trains models" in done.stderr
    assert "Traceback" not in done.stderr


def test_any_other_command_is_run(muster):
    """What isn't a command of muster's is run in its place, with its arguments as they are."""
    done = muster("echo", "hi", "a  b", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi a  b --version\n", "")


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "exit 255"])
def test_the_status_of_another_command(muster, script: str):
    """Another command's status is the container's."""
    assert muster("sh", "-c", script).returncode == int(script.split()[1])


def test_another_command_takes_the_same_process(clean_env):
    """Another command replaces the harness: signals reach it directly."""
    with subprocess.Popen(
        [sys.executable, "-I", "-m", "muster", "sh", "-c", "echo $$"],
        env=clean_env,
        stdout=subprocess.PIPE,
    ) as process:
        out, _ = process.communicate(timeout=20)
    assert int(out) == process.pid


def test_another_command_inherits_no_ignored_signals(muster, no_signals):
    """Another command finds signals as a shell would give them, SIGPIPE not ignored."""
    done = muster("grep", "^Sig[BI]", "/proc/self/status")
    blocked, ignored = re.findall(r"Sig(?:Blk|Ign):\t(\w+)", done.stdout)
    assert no_signals(blocked)
    assert no_signals(ignored)


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        ("no-such-command", 127, "neither a command of muster nor a program here"),
        ("./data", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run(muster, tmp_path, command: str, status: int, reason: str):
    """A command that isn't there or isn't executable ends as it would in a shell."""
    (tmp_path / "data").touch(mode=0o644)
    done = muster(command)
    assert done.returncode == status
    assert done.stderr == f"muster: {command}: {reason} (see muster --help)\n"


def test_the_commands_are_installed():
    """The wheel brings `muster` and `muster-rank`, which the images put on PATH."""
    scripts = {entry.name: entry.value for entry in entry_points(group="console_scripts")}
    assert scripts["muster"] == "muster.cli:main"
    assert scripts["muster-rank"] == "muster.launch.shim:main"


def test_the_harness_needs_the_standard_library_alone(clean_env):
    """The whole pipeline can be imported without any package beside muster."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "import muster.cli, muster.train, muster.show, muster.launch.shim, muster.training.hook\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(names - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "muster\n"


def test_plan_as_json(muster, opt_ml):
    """`muster plan --json` prints the plan of this host as one object, and runs nothing."""
    opt_ml.file("code/train.py", "open('ran', 'w')")
    opt_ml.config("hyperparameters", {"sagemaker_program": "train.py", "lr": "1e-3"})
    done = muster("plan", "--json", env=opt_ml.env | {"MUSTER_LAUNCHER": "plain"})
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert plan["launcher"] == "plain"
    assert plan["argv"][-3:] == [f"{opt_ml.base}/code/train.py", "--lr", "1e-3"]
    assert sorted(path.name for path in opt_ml.base.iterdir()) == ["code", "input"]


def test_plan_shows_no_secrets(muster, opt_ml):
    """A plan can be pasted anywhere: neither arguments nor variables in it hold a secret."""
    opt_ml.file("code/train.py", "")
    opt_ml.config("hyperparameters", {"sagemaker_program": "train.py", "hf_token": "hunter2"})
    env = opt_ml.env | {"MUSTER_LAUNCHER": "plain", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    for words in (["plan", "--json"], ["plan"]):
        done = muster(*words, env=env)
        assert done.returncode == 0
        assert "--hf_token" in done.stdout
        assert "hunter2" not in done.stdout + done.stderr


def test_plan_for_another_host(muster, opt_ml):
    """`--host` shows what that host of the job would run; an unknown one lists those there are."""
    opt_ml.file("code/train.py", "")
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    env = opt_ml.env | {"MUSTER_LAUNCHER": "plain", "SAGEMAKER_PROGRAM": "train.py"}
    done = muster("plan", "--json", "--host", "algo-2", env=env)
    plan = json.loads(done.stdout)
    assert (plan["host"], plan["node_rank"]) == ("algo-2", 1)
    done = muster("plan", "--host", "algo-3", env=env)
    assert done.returncode == 70
    assert done.stderr == "muster: --host algo-3 is not a host of the job (algo-1, algo-2)\n"


def test_plan_for_people(muster, opt_ml):
    """Without --json a few lines tell the job, the hosts, the launcher and the command."""
    opt_ml.file("code/my train.py", "")
    env = opt_ml.env | {"MUSTER_LAUNCHER": "plain", "TRAINING_JOB_NAME": "pets"}
    done = muster("plan", "my train.py", "--resume", env=env)
    assert done.returncode == 0
    assert "job pets" in done.stdout
    assert "launcher plain (MUSTER_LAUNCHER)" in done.stdout
    assert f"'{opt_ml.base}/code/my train.py' --resume" in done.stdout


def test_plan_of_a_job_that_cannot_run(muster, opt_ml):
    """A plan fails as the job would: same status, one message, nothing written."""
    done = muster("plan", env=opt_ml.env)
    assert done.returncode == 70
    assert done.stderr.startswith("muster: the job names no entry point\n")
    assert "Traceback" not in done.stderr
    assert list(opt_ml.base.iterdir()) == []
