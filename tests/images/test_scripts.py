from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def handover():
    """The part of the scripts that collects a machine's settings."""
    return importlib.import_module("tooling.handover")


def test_pip_conf_names_no_file_of_the_machine(handover):
    """A build gets the indexes, never a path or file:// address that exists outside of it alone."""
    listed = (
        ":env:.timeout='60'\n"
        "global.constraint='/etc/constraints.txt'\n"
        "global.extra-index-url='file:///srv/simple https://b.example/simple'\n"
        "global.index-url='https://user:word@a.example/simple'\n"
        "global.find-links='/srv/wheels'\n"
    )
    conf = handover.pip_conf(handover.pip_settings(listed)).splitlines()
    assert conf == [
        "[global]",
        "index-url = https://user:word@a.example/simple",
        "extra-index-url = https://b.example/simple",
        "timeout = 60",
    ]


def test_environment_wins_over_pips_files(handover):
    """As in pip itself."""
    listed = "global.index-url='https://file.example'\n:env:.index-url='https://env.example'\n"
    assert handover.pip_settings(listed)["index-url"] == ["https://env.example"]


def test_nothing_set_is_no_pip_conf(handover):
    """A machine without settings hands over none."""
    assert handover.pip_conf(handover.pip_settings("")) == ""


def test_proxies_in_either_case(handover):
    """Small letters are as good as capitals, and an empty value is none."""
    found = handover.proxies({"https_proxy": "http://p:1", "NO_PROXY": "", "PATH": "/bin"})
    assert found == {"HTTPS_PROXY": "http://p:1"}


def test_wheels_are_a_context_only_where_the_pin_is(handover, tmp_path):
    """A folder with a CPU wheel is no help to a GPU image."""
    (tmp_path / "torch-2.0.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    settings = handover.Handover(secrets=(), proxies={}, wheel_folders=(tmp_path,))
    cpu = settings.target({"args": {"TORCH_VERSION": "2.0.0+cpu"}, "tags": ["a"]}, None)
    gpu = settings.target({"args": {"TORCH_VERSION": "2.0.0"}, "tags": ["a"]}, None)
    assert cpu["contexts"] == {"wheels": str(tmp_path)}
    assert "contexts" not in gpu
    assert "network" not in cpu


def test_engine_is_not_set_up_when_told_so(root, tmp_path):
    """MUSTER_SETUP_ENGINE=0: one line says what to install, and the status is not 0."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    docker.chmod(0o755)
    done = subprocess.run(
        [sys.executable, root / "scripts/engine"],
        env={"PATH": str(tmp_path), "MUSTER_SETUP_ENGINE": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "install Docker Engine" in done.stderr


def test_pid_files_of_dead_daemons_go(tmp_path):
    """A pid file that another process has the number of is no daemon; a running one's stays."""
    engine = importlib.import_module("tooling.engine")
    mine = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    cases = {
        "taken": ("dockerd", os.getpid()),
        "empty": ("dockerd", ""),
        "alive": (mine, os.getpid()),
    }
    files = {tmp_path / name: program for name, (program, _) in cases.items()}
    for path in files:
        path.write_text(f"{cases[path.name][1]}", encoding="utf-8")
    engine.drop_stale({**files, tmp_path / "missing": "dockerd"})
    assert [path.name for path in tmp_path.iterdir()] == ["alive"]


@pytest.mark.docker
def test_engine_that_answers_is_left_alone(root):
    """A second run says one line and starts nothing."""
    done = subprocess.run(
        [sys.executable, root / "scripts/engine"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "answers" in done.stderr


def test_override_is_valid_json(handover):
    """What is written for bake has bake's own attribute names."""
    settings = handover.Handover(
        secrets=("id=ca,src=/ca.pem",), proxies={"NO_PROXY": "x"}, wheel_folders=()
    )
    override = json.loads(json.dumps(settings.target({"args": {}}, "host")))
    assert override == {
        "secret": ["id=ca,src=/ca.pem"],
        "args": {"NO_PROXY": "x"},
        "output": ["type=cacheonly"],
        "network": "host",
    }
