"""The whole stage, with real pip."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import wheels
from wheels import make_sdist, make_wheel

from muster import mask
from muster.errors import RequirementsError
from muster.requirements import announced, surroundings
from muster.requirements.programs import Programs
from muster.settings import read_settings


@pytest.fixture(autouse=True)
def _nothing_learnt(monkeypatch):
    monkeypatch.setattr(mask, "_values", set())


def test_requirements_are_installed(host, capfd):
    """What the file names is there afterwards, whatever kind the entry point is, and one line says so."""
    host.ask("# ours\r\nsmall>=1.0 ; python_version > '3'\r\n")
    assert host.install() == ()
    assert host.version("small") == "2.0"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("[muster] requirements: 1 package in ")
    assert line.endswith(" s (small 2.0)")


def test_nothing_to_do_costs_nothing(host, capfd):
    """Without a file, or with one that asks for nothing, no installer is started."""
    assert host.install() == ()
    host.ask("# nothing yet\n--extra-index-url https://127.0.0.1:9/simple\n")
    assert host.install() == ()
    assert not capfd.readouterr().err


def test_what_is_satisfied_is_left_alone(host, capfd):
    """A second run changes nothing and says so; torch is not imported again."""
    host.ask("small==1.0\ntorch\n")
    host.install()
    (next(host.venv.glob("lib/python3*/site-packages")) / "torch.py").write_text("1/0")
    capfd.readouterr()
    assert host.install() == ()
    assert "requirements: nothing new from requirements.txt, " in capfd.readouterr().err


def test_another_file_can_be_named(host, tmp_path):
    """MUSTER_REQUIREMENTS names a file of the code, an absolute one, or `none`."""
    host.ask("nosuch")
    host.ask("small==1.0", "gpu.txt")
    host.install(MUSTER_REQUIREMENTS="gpu.txt")
    assert host.version("small") == "1.0"
    path = tmp_path / "abroad.txt"
    path.write_text("small==2.0")
    host.install(MUSTER_REQUIREMENTS=str(path))
    assert host.version("small") == "2.0"
    assert host.install(MUSTER_REQUIREMENTS="none") == ()


def test_a_named_file_that_is_missing(fails):
    """A wrong name is an error, not an installation less."""
    what, _ = fails("small", MUSTER_REQUIREMENTS="gpu.txt")
    assert what.startswith("MUSTER_REQUIREMENTS=gpu.txt: there is no file /")


@pytest.mark.parametrize(
    "spec", ["torch==2.13.0", "torch>=2.0", "torch~=2.13.0", "torch", "Torch==2.13.0+cpu"]
)
def test_the_images_own_torch_fits(host, spec: str):
    """A version with a local part, 2.13.0+cpu, is what 2.13.0 asks for."""
    host.ask(f"{spec}\nsmall")
    assert host.install() == ()
    assert host.version("torch") == "2.13.0+cpu"
    assert host.version("small") == "2.0"


@pytest.mark.parametrize(
    ("line", "has"),
    [
        ("torch==2.0.0", "torch 2.13.0+cpu"),
        ("torch<2.13", "torch 2.13.0+cpu"),
        ("torch[extra] == 2.12.1 ; python_version > '3'", "torch 2.13.0+cpu"),
        ("torch @ https://x.example/torch-2.0.0-py3-none-any.whl", "torch 2.13.0+cpu"),
        ("https://x.example/torch-2.0.0-py3-none-any.whl", "torch 2.13.0+cpu"),
        ("torch==2.0.0 --hash=sha256:00", "torch 2.13.0+cpu"),
        ("numpy==1.26.4", "numpy 2.4.6"),
        ("numpy<2", "numpy 2.4.6"),
        ("numpy>=3", "numpy 2.4.6"),
    ],
)
def test_a_conflict_is_told_before_anything_happens(fails, index, line: str, has: str):
    """Both versions and both files are named, and the index is not even asked."""
    index.requests.clear()
    what, remedy = fails(f"small\n{line}\n")
    assert what.startswith(f"requirements.txt asks for {line}, and the image has {has} (/")
    assert what.endswith("constraints.txt)")
    assert "MUSTER_ALLOW_TORCH_CHANGE=1" in remedy
    assert index.requests == []


def test_a_conflict_in_a_file_below(host, fails):
    """A line in a file that the file includes is found, and that file is named."""
    host.ask("torch==2.0.0", "base.txt")
    what, _ = fails("-r base.txt\n")
    assert what.startswith(f"{host.code}/base.txt asks for torch==2.0.0, and ")


@pytest.mark.parametrize(
    "line",
    ["torch==2.0.0 ; python_version < '3'", "numpy>=2,<2.4.5", "numpy>1,!=2.4.6", "numpy==2.4.1"],
)
def test_what_is_no_conflict(host, line: str):
    """A marker that doesn't hold asks for nothing, and numpy may change within its major version."""
    host.ask(line)
    host.install()
    assert host.version("torch") == "2.13.0+cpu"


def test_what_changed_is_noted(host):
    """Packages that had another version before are named with both."""
    host.ask("numpy==2.4.1\njinja2")
    assert host.install() == ("requirements.txt changed numpy 2.4.6 -> 2.4.1",)


def test_a_conflict_deeper_down(host, fails):
    """Where a dependency wants another torch, it is named, with both versions and where ours is from."""
    what, remedy = fails("needs-old")
    start = "requirements.txt: needs-old 1.0 depends on torch==2.0.0, and the image has torch==2.13.0+cpu (/"
    assert what.startswith(start)
    assert what.endswith("constraints.txt)")
    assert "MUSTER_ALLOW_TORCH_CHANGE=1" in remedy
    assert host.version("torch") == "2.13.0+cpu"


def test_torch_may_change_if_the_user_says_so(host):
    """The switch lets another torch in, and a note tells."""
    host.ask("torch==2.0.0")
    notes = host.install(MUSTER_ALLOW_TORCH_CHANGE="1")
    assert notes == (
        "requirements.txt may replace torch (MUSTER_ALLOW_TORCH_CHANGE=1)",
        "requirements.txt changed torch 2.13.0+cpu -> 2.0.0",
    )
    assert host.version("torch") == "2.0.0"


def test_an_extended_image_keeps_its_own_torch(host, packages):
    """In an image built on ours with another torch, that one stays: the list of ours is older."""
    words = [host.python, "-m", "pip", "install", "-qq", "--no-index", "--no-deps"]
    subprocess.run([*words, packages / "torch-2.0.0-py3-none-any.whl"], check=True, env=host.env)
    host.ask("torch==2.0.0\nsmall")
    host.install()
    assert host.version("torch") == "2.0.0"


def test_torchvision_leaves_torch_alone(host):
    """A package that depends on torch comes with its own dependencies, and torch stays."""
    host.ask("torchvision")
    assert host.install() == ()
    assert host.version("torchvision") == "0.28.0"
    assert host.version("torch") == "2.13.0+cpu"


def test_a_torch_that_is_broken_afterwards(fails):
    """What can't be imported any more ends the job, with the reason and with what has changed."""
    what, remedy = fails("breaks")
    assert what == (
        "after requirements.txt was installed, torch can't be imported: "
        "ImportError: undefined symbol: ncclX"
    )
    assert remedy == "These have changed: breaks 1.0."


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("small==3", "requirements.txt: there is no small==3 in the index"),
        ("needs-absent", "requirements.txt: absent>=2 (from needs-absent) is not in the index"),
        ("newpy", "requirements.txt: newpy needs Python >=3.99, and this is 3."),
        ("small==1.0 --hash=sha256:" + "0" * 64, "requirements.txt: small==1.0 has another hash"),
        (
            "jinja2\nsmall==1.0 --hash=sha256:" + "0" * 64,
            "requirements.txt: jinja2 is without hash",
        ),
        ("foo bar", "line 1 of "),
        ("-r other.txt", "requirements.txt: /"),
        ("./nothere.whl", "requirements.txt: pip ended with status 1: "),
    ],
    ids=["version", "dependency", "python", "hash", "no-hash", "line", "include", "path"],
)
def test_what_pip_says_in_one_line(fails, host, text: str, start: str):
    """The package, or the line, is named, and pip's whole output is in a file."""
    what, remedy = fails(text)
    assert what.startswith(start)
    assert "\n" not in what
    path = f"{host.record}/requirements.log"
    assert remedy.endswith(f"All that pip has said: {path}")
    assert "ERROR: " in Path(path).read_text(encoding="utf-8")


NO_BUILD_ENVIRONMENT = {"PIP_NO_BUILD_ISOLATION": "0"}
"""pip's odd way to say that setuptools is here already."""


def test_a_source_package_without_a_compiler(fails):
    """The package, the compiler, the image's tag that has one and the folder for wheels are named."""
    what, remedy = fails("compiled", **NO_BUILD_ENVIRONMENT)
    assert what == "requirements.txt: compiled comes as source and needs g++, which the image lacks"
    assert "-dev" in remedy
    assert "wheels/" in remedy


def test_a_repository_without_git(fails, tmp_path):
    """The repository, git and how an image gets it are told; a password in the address is not."""
    (tmp_path / "bin").mkdir()
    line = "small @ git+https://me:hunter2-secret@127.0.0.1:9/x/y@v1"
    what, remedy = fails(line, PATH=f"{tmp_path}/venv/bin:{tmp_path}/bin")
    assert "127.0.0.1:9/x/y is fetched by git, which the image lacks" in what
    assert "MUSTER_APT_PACKAGES=git" in remedy
    assert "hunter2" not in what + remedy


def test_a_source_package_that_fails_otherwise(fails):
    """The package and its own last words are told."""
    what, _ = fails("unbuilt", **NO_BUILD_ENVIRONMENT)
    assert what == "requirements.txt: unbuilt can't be built: RuntimeError: no CUDA here"


def silent() -> socket.socket:
    """A port that accepts connections and never answers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(50)
    return listener


@pytest.mark.parametrize("extra", [0, 2], ids=["one-index", "three"])
def test_an_index_that_never_answers(fails, extra: int):
    """The job fails within 30 s, with the index and the ways out."""
    with silent() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        more = " ".join(f"{url}/{number}" for number in range(extra))
        began = time.monotonic()
        what, remedy = fails("small\njinja2", PIP_INDEX_URL=url, PIP_EXTRA_INDEX_URL=more)
    assert time.monotonic() - began < 30
    assert what == f"requirements.txt: no way to the index {url[7:]}: no answer"
    assert "network isolation" in remedy
    assert "wheels/" in remedy
    assert "into the image" in remedy


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:9/simple", "127.0.0.1:9: connection refused"),
        ("https://nosuch.invalid/simple", "nosuch.invalid: no such name"),
    ],
)
def test_an_index_that_is_not_there(fails, url: str, told: str):
    """A refused connection and a name that nobody knows are told as what they are, in seconds."""
    began = time.monotonic()
    what, _ = fails("small", PIP_INDEX_URL=url)
    assert time.monotonic() - began < 30
    assert what == f"requirements.txt: no way to the index {told}"


def test_credentials_are_hidden(host, fails, index, capfd):
    """Neither the log nor the error nor the kept output shows a password: from a variable or the file."""
    bare = index.url.replace("me:hunter2-secret@", "")
    other = bare.replace("://", "://you:other%2Dsecret@")
    what, remedy = fails(f"--extra-index-url {other}\nhunter2-secret==1\nother-secret==1")
    said = what + remedy + capfd.readouterr().err
    kept = (host.record / "requirements.log").read_text(encoding="utf-8")
    for text in (said, kept):
        assert "***" in mask.mask_text(text)
    shown = mask.mask_text(said) + kept
    assert "hunter2" not in shown
    assert "other-secret" not in shown
    assert "other%2Dsecret" not in shown


def test_pips_own_file_counts(host, index, tmp_path):
    """The index in a pip.conf is used, and its limits win over ours."""
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\nindex-url = {index.url}\ntimeout = 7\nretries = 4\n")
    host.ask("small")
    del host.env["PIP_INDEX_URL"]
    host.install(PIP_CONFIG_FILE=str(conf))
    assert host.version("small") == "2.0"
    assert "hunter2-secret" not in mask.mask_text("hunter2-secret")


def test_wheels_beside_the_file(host, index, fails):
    """A folder wheels/ stands in the index's place; what it lacks is told with it."""
    make_wheel(host.code / "wheels", "mine", "0.1")
    index.requests.clear()
    host.ask("mine\ntorch")
    host.install()
    assert host.version("mine") == "0.1"
    assert index.requests == []
    what, remedy = fails("small")
    assert f"small is not in the folder {host.code}/wheels" in what
    assert "pip download" in remedy


def test_a_folder_wheels_with_nothing_in_it(host, fails):
    """Where the index does not give what was to be in it, either, the empty folder is the reason that is told."""
    (host.code / "wheels").mkdir()
    (host.code / "wheels/.gitkeep").touch()
    what, _ = fails("small", PIP_INDEX_URL="http://127.0.0.1:9/simple")
    empty = "requirements.txt: wheels/ is empty: nothing can be installed from it"
    assert what.startswith(f"{empty}, and no way to the index 127.0.0.1:9")
    assert fails("absent")[0].startswith(f"{empty}, and absent is not in the index")
    assert "wheels/" not in fails("torch==2.0.0")[0]
    host.ask("small")
    host.install()
    assert host.version("small") == "2.0"


def test_a_package_named_wheels_is_no_such_folder(host):
    """A Python package of that name, without any wheel in it, changes nothing."""
    (host.code / "wheels").mkdir()
    (host.code / "wheels/__init__.py").touch()
    host.ask("small")
    host.install()
    assert host.version("small") == "2.0"


@pytest.mark.parametrize("name", ["logging.py", "types.py", "packages.py", "pip.py"])
def test_the_users_modules_are_not_pythons(host, name: str):
    """A module beside the script has no part in the installation."""
    (host.code / name).write_text("1/0")
    host.ask("small")
    host.install()
    assert host.version("small") == "2.0"


def test_a_local_path_is_seen_from_the_code(host):
    """`./dist/x.whl` and `-e .` are relative to the code folder."""
    path = make_wheel(host.code / "dist", "mine", "0.1")
    host.ask(f"./dist/{path.name}")
    host.install()
    assert host.version("mine") == "0.1"


def hashed(packages: Path, name: str, version: str) -> str:
    """Return a line with the hash of a package's wheel."""
    data = (packages / f"{name}-{version}-py3-none-any.whl").read_bytes()
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(data).hexdigest()}\n"


def test_hashes_hold_beside_the_constraints(host, packages):
    """A file with hashes for all is installed, though the image's own list has none."""
    host.ask(hashed(packages, "small", "1.0") + hashed(packages, "numpy", "2.4.1"))
    assert host.install() == ("requirements.txt changed numpy 2.4.6 -> 2.4.1",)
    assert host.version("small") == "1.0"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"small\0", "is no text: line 1 has a zero byte"),
        (b"ok\n# gr\xfc\xdfe\n", "is not UTF-8 in line 2"),
    ],
)
def test_a_file_that_is_no_text(host, data: bytes, said: str):
    """Bytes that are no text are told with their line."""
    (host.code / "requirements.txt").write_bytes(data)
    with pytest.raises(RequirementsError, match=said):
        host.install()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark(host, encoding: str):
    """A file saved on Windows is as good."""
    (host.code / "requirements.txt").write_bytes("small\r\n".encode(encoding))
    host.install()
    assert host.version("small") == "2.0"


BACKEND = """
from pathlib import Path
from wheels import make_wheel
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return make_wheel(Path(folder), "mine", "0.3", requires=["jinja2"]).name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["build"]
"""


@pytest.mark.parametrize("hashes", [False, True])
def test_the_project_itself(host, packages, hashes: bool):
    """MUSTER_INSTALL_PROJECT=1 installs the code folder together with its requirements."""
    (host.code / "build").mkdir()
    shutil.copy(wheels.__file__, host.code / "build/wheels.py")
    (host.code / "build/backend.py").write_text(BACKEND)
    (host.code / "pyproject.toml").write_text(PYPROJECT)
    host.ask(
        hashed(packages, "small", "1.0") + hashed(packages, "jinja2", "2.0")
        if hashes
        else "small==1.0"
    )
    host.install()
    assert not host.version("mine")
    host.install(MUSTER_INSTALL_PROJECT="1")
    assert host.version("mine") == "0.3"
    assert host.version("small") == "1.0"
    assert host.version("jinja2") == "2.0"


def test_a_stray_setup_py(host):
    """A setup.py that nobody asked to install changes nothing."""
    (host.code / "setup.py").write_text("1/0")
    assert host.install() == ()
    host.ask("small")
    host.install()
    assert host.version("small") == "2.0"


def test_a_folder_that_is_no_project(fails):
    """Asked to install what is no project, it says what makes one."""
    what, _ = fails("", MUSTER_INSTALL_PROJECT="1")
    assert "has neither pyproject.toml nor setup.py" in what


def test_a_python_without_pip(host, fails):
    """A venv without pip is told as such, with what helps."""
    for path in host.venv.glob("lib/python3*/site-packages/pip*"):
        path.rename(host.venv / path.name)
    what, remedy = fails("small")
    assert f"{host.venv}/bin/python3 has no pip, and PATH no uv" in what
    assert "ensurepip" in remedy


def test_no_uv(fails):
    """MUSTER_INSTALLER=uv without uv is an error."""
    assert (
        fails("small", MUSTER_INSTALLER="uv")[0]
        == "MUSTER_INSTALLER=uv, and there is no uv on PATH"
    )


def test_a_python_of_the_system(fails, tmp_path):
    """Where the system keeps its Python to itself (PEP 668), the way out is a venv."""
    fake = tmp_path / "system-python"
    answer = {"python": "3.11", "installed": {}, "pip": "23.0", "managed": True, "kept": {}}
    answer |= {"conflicts": [], "hashes": False, "empty": False, "lines": [], "config": {}}
    # Called as the probe is: its file, and what it is asked.
    text = (
        f"import json, sys\njson.dump({answer!r}, open(json.loads(sys.argv[2])['answer'], 'w'))\n"
    )
    fake.write_text(f"#!{sys.executable}\n{text}")
    fake.chmod(0o755)
    what, remedy = fails("small", MUSTER_PYTHON=str(fake))
    assert "PEP 668" in what
    assert "venv" in remedy


def test_a_warm_pool_keeps_the_cache(host, tmp_path):
    """What was fetched is in the folder that the pool keeps, though the image has switched pip's cache off."""
    warm = tmp_path / "warm"
    warm.mkdir()
    host.ask("small")
    host.install(SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY=str(warm), PIP_TRUSTED_HOST="127.0.0.1")
    assert (warm / "pip").is_dir()


SLOW = """
import pathlib, time
pathlib.Path({started!r}).touch()
time.sleep(120)
"""


def test_a_stop_ends_what_has_been_started(host, tmp_path):
    """Ended from another thread, pip and what it has started are gone at once, and nothing is kept."""
    started = tmp_path / "started"
    make_sdist(host.code / "wheels", "slow", "1.0", SLOW.replace("{started!r}", repr(str(started))))
    host.ask("slow")
    programs = Programs()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            host.install(programs, **NO_BUILD_ENVIRONMENT)
        except RequirementsError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 30
    while not started.exists():
        assert time.monotonic() < deadline
        assert thread.is_alive(), errors
        time.sleep(0.02)
    began = time.monotonic()
    programs.end()
    thread.join(10)
    assert time.monotonic() - began < 5
    assert not thread.is_alive()
    assert [str(error) for error in errors] == ["the job is ending"]
    assert not host.record.exists()


def test_hosts_with_one_venv_install_one_after_the_other(host, capfd):
    """Two hosts of one machine that share a venv don't touch it at once, and the second finds all done."""
    host.ask("small\ntorchvision")
    threads = [threading.Thread(target=host.install) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    said = capfd.readouterr().err
    assert said.count("requirements: 2 packages in ") == 1
    assert said.count("requirements: nothing new from requirements.txt") == 1


def test_a_plan_announces_it(host):
    """`muster plan` installs nothing, and says what a run would."""
    from muster.model import Code  # noqa: PLC0415  (this test's alone)

    code = Code(str(host.code), "train.py", ())
    settings = read_settings({"MUSTER_CONSTRAINTS": str(host.constraints)})
    assert announced(code, settings, host.env) == code
    host.ask("small")
    (note,) = announced(code, settings, host.env).notes
    assert note == "requirements.txt is installed before the ranks begin, from the index"
    assert not host.version("small")
    host.ask("torch==2.0.0")
    with pytest.raises(RequirementsError, match=r"and the image has torch 2\.13\.0"):
        announced(code, settings, host.env)


def test_a_python_that_is_not_an_images(host, tmp_path):
    """Where nobody has written down what stays, the torch that is there stays: it was somebody's choice."""
    host.ask("torch==2.0.0")
    with pytest.raises(RequirementsError, match=r"and this Python has torch 2\.13\.0\+cpu \(/"):
        host.install(MUSTER_CONSTRAINTS=str(tmp_path / "none.txt"))
    assert host.version("torch") == "2.13.0+cpu"


def test_a_long_file_with_hashes(host, packages):
    """A locked file of hundreds of kilobytes is read as any other."""
    more = " ".join(f"--hash=sha256:{number:064x}" for number in range(6000))
    host.ask(hashed(packages, "small", "1.0").rstrip() + f" {more}\n")
    host.install()
    assert host.version("small") == "1.0"


def test_a_project_that_can_not_be_copied(tmp_path):
    """It is told by the file, as an error of the job's."""
    project = tmp_path / "mine"
    project.mkdir()
    os.mkfifo(project / "queue")
    with pytest.raises(RequirementsError, match=r"mine/queue: .*is a named pipe"):
        surroundings.copied(str(project), str(tmp_path))


def test_the_harness_is_not_what_is_installed_into(host):
    """The user's own Python gets old packages of names that the harness's has, too."""
    own = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, check=True)
    host.ask("jinja2==2.0")
    host.install()
    assert host.version("jinja2") == "2.0"
    assert os.path.realpath(sys.prefix) != os.path.realpath(host.venv)
    again = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, check=True)
    assert again.stdout == own.stdout
