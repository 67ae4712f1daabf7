"""The backend of containers with a stand-in for the docker command, so that no engine is needed."""

from pathlib import Path

import pytest

from muster.launch.streams import LogPump
from muster.local import container
from muster.local.backend import BackendError
from muster.local.folders import make_hosts
from muster.local.options import parse

STAND_IN = """#!/bin/sh
echo "$*" >> "$0.log"
case "$1" in
  {fails}) echo "docker: {words}" >&2; echo "See 'docker --help'." >&2; exit 125 ;;
  ps) echo c1; echo c2 ;;
  network) [ "$2" != ls ] || echo n1 ;;
  wait) echo 33 ;;
  logs) echo output ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path):
    """Return a function that makes a docker command, one word of which fails, and its variables."""

    def make(fails: str = "none", words: str = "no luck") -> dict[str, str]:
        (tmp_path / "bin").mkdir()
        command = tmp_path / "bin" / "docker"
        command.write_text(STAND_IN.format(fails=fails, words=words))
        command.chmod(0o755)
        return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}

    return make


@pytest.fixture
def options(tmp_path: Path):
    """Return the options of a job on two hosts."""
    (tmp_path / "train.py").touch()
    return parse(
        [str(tmp_path / "train.py"), *["--backend", "docker", "--hosts", "2", "--image", "i"]]
    )


@pytest.fixture
def start(options, tmp_path):
    """Return a function that starts the job with a docker command."""

    def run(env: dict[str, str]):
        pump = LogPump()
        return container.start(options, make_hosts(options, str(tmp_path / "job")), env, pump)

    return run


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "bin" / "docker.log").read_text().splitlines()


def test_no_docker_command(options):
    """Without the command the error says so, and what to do instead."""
    with pytest.raises(BackendError, match="no docker command on PATH") as caught:
        container.check(options, {"PATH": "/nowhere"})
    assert "Without --backend docker" in caught.value.remedy
    assert caught.value.status == 2


@pytest.mark.parametrize(
    ("fails", "message", "remedy"),
    [
        ("version", r"no Docker engine answers \(docker version: no luck\)", "Start it"),
        ("image", "the image i is not on this machine", "docker pull i"),
    ],
)
def test_what_docker_lacks(options, docker, fails: str, message: str, remedy: str):
    """A missing engine and a missing image are told apart, each with what to do."""
    with pytest.raises(BackendError, match=message) as caught:
        container.check(options, docker(fails))
    assert remedy in caught.value.remedy


def test_all_is_there(options, docker):
    """With command, engine and image the check finds nothing."""
    container.check(options, docker())


def test_from_start_to_end(start, docker, tmp_path):
    """Hosts are started on the job's network, their statuses are docker's, and all is removed."""
    with start(docker()) as runs:
        assert [run.host.name for run in runs] == ["algo-1", "algo-2"]
        for run in runs:
            while (status := run.poll()) is None:
                pass
            assert status == 33
        runs[0].stop(2)
        runs[1].kill()
    words = calls(tmp_path)
    assert words[0].startswith("network create --internal")
    assert "kill --signal SIGTERM muster-job-algo-1" in words
    assert "kill --signal SIGKILL muster-job-algo-2" in words
    assert words[-4:] == [
        "ps --all --quiet --filter label=muster.local=job",
        "rm --force --volumes c1 c2",
        "network ls --quiet --filter label=muster.local=job",
        "network rm n1",
    ]


def test_a_host_that_can_not_be_started(start, docker, tmp_path):
    """Docker's own first line is the error, and what had been made is removed."""
    with pytest.raises(BackendError, match=r"^docker run: no luck$"), start(docker("run")):
        pass
    assert calls(tmp_path)[-1] == "network rm n1"


def test_an_end_that_fails(start, docker, capfd):
    """What can't be removed is told, and is no reason to lose the job's end."""
    with start(docker("rm")):
        pass
    error = capfd.readouterr().err
    assert "left behind, with the label muster.local=job: docker rm: no luck" in error


def test_a_status_that_docker_does_not_tell(start, docker, capfd):
    """A host whose end nobody knows has failed."""
    with start(docker("wait")) as runs:
        while (status := runs[0].poll()) is None:
            pass
    assert status == 1
    assert "algo-1: docker wait gave no status: no luck" in capfd.readouterr().err
