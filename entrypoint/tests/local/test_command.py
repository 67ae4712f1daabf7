"""`muster local` with real harnesses, without torch: the launcher is `plain`."""

import json
from pathlib import Path

import pytest

SCRIPT = """
import json, os, sys
host = os.environ["SM_CURRENT_HOST"]
print(f"{host} says hello")
with open(os.path.join(os.environ["SM_MODEL_DIR"], host), "w") as file:
    json.dump([sys.argv[1:], os.environ["SM_HOSTS"], os.environ["SM_CHANNEL_TRAINING"]], file)
if host == os.environ.get("FAILS"):
    raise ValueError(f"no luck on {host}")
"""


@pytest.fixture
def local(muster, tmp_path):
    """Return a function that runs a script on two hosts of this machine."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "data").mkdir()

    def run(env: dict[str, str] | None = None):
        options = "--hosts 2 --launcher plain --channel training=data --hyperparameter lr=1e5"
        return muster("local", "train.py", *options.split(), "--", "--resume", "a b", env=env)

    return run


def test_two_hosts(local, tmp_path):
    """Both hosts run the script as SageMaker would have them, and the summary lists them."""
    done = local()
    assert done.returncode == 0, done.stderr
    assert "algo-1 says hello" in done.stdout.splitlines()
    assert "[algo-2 1] algo-2 says hello" in done.stdout.splitlines()
    for name in ("algo-1", "algo-2"):
        (path,) = tmp_path.glob(f"muster-out/*/model/{name}")
        argv, hosts, channel = json.loads(path.read_text())
        assert argv == ["--lr", "1e5", "--resume", "a b"]
        assert json.loads(hosts) == ["algo-1", "algo-2"]
        assert Path(channel).samefile(tmp_path / "data")
    assert "model: algo-1, algo-2" in done.stdout


def test_a_failing_host(local):
    """The status and the reason of the host that failed are the job's."""
    done = local({"FAILS": "algo-2"})
    assert done.returncode == 1
    assert "ValueError: no luck on algo-2" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["nothing.py"], 71, "muster: the script nothing.py does not exist"),
        (["train.py", "--channel", "a=/no/such"], 70, "channel a: the folder /no/such"),
        (["train.py", "--hosts", "0"], 2, "must be 1 to 254"),
    ],
)
def test_mistakes(local, muster, words: list[str], status: int, message: str):
    """A mistake is one clear error with its status, and no traceback."""
    del local  # It has written train.py.
    done = muster("local", *words)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
