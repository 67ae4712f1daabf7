import io
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from muster.code import Scratch, locate
from muster.errors import CodeError, ContractError
from muster.model import Channel, Paths
from muster.settings import read_settings

PYTHON = {"PATH": os.path.dirname(sys.executable)}


@pytest.fixture
def find(opt_ml, make_job, tmp_path):
    """Return a function that locates the code of a job, given the job's parts and variables."""

    def find_it(env: dict[str, str] | None = None, **changes: Any):
        job = make_job(paths=Paths(str(opt_ml.base)), **changes)
        return locate(job, read_settings(env or {}), PYTHON, scratch)

    (tmp_path / "baked").mkdir()
    scratch = Scratch(f"{opt_ml.base}/code")
    yield find_it
    scratch.remove()


def python() -> str:
    path = shutil.which("python3", path=PYTHON["PATH"])
    assert path
    return path


@pytest.mark.parametrize(
    ("places", "winner"),
    [
        (["input/data/code", "../baked", "code"], "input/data/code"),
        (["../baked", "code"], "../baked"),
        (["code"], "code"),
    ],
)
def test_order_of_the_places(find, opt_ml, tmp_path, places: list[str], winner: str):
    """The channel `code` comes first, then the image's own folder, then /opt/ml/code."""
    for place in places:
        opt_ml.file(f"{place}/train.py", "")
    code = find({"MUSTER_CODE_DIR": str(tmp_path / "baked")})
    path = os.path.normpath(opt_ml.base / winner)
    assert os.path.normpath(code.directory) == path
    assert code.entry == "train.py"
    assert code.command == (python(), f"{path}/train.py")


def test_a_place_without_the_program_is_passed_over(find, opt_ml):
    """A folder that doesn't hold the entry point is no reason to stop looking."""
    opt_ml.file("input/data/code/other.py", "")
    opt_ml.file("code/train.py", "")
    assert find().directory == f"{opt_ml.base}/code"


@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}", "file://localhost{}"])
def test_the_submit_directory_wins(find, opt_ml, tmp_path, form: str):
    """A submit directory is used though the image holds a program of the same name."""
    opt_ml.file("code/train.py", "")
    opt_ml.file("input/data/code/train.py", "")
    mine = opt_ml.file("../my code/train.py", "")
    address = form.format(tmp_path / "my code")
    assert find(submit_directory=address).command[-1] == str(mine)


def test_a_file_address_is_decoded(find, opt_ml, tmp_path):
    """%20 in a file:// address is a blank; in a plain path it is itself."""
    mine = opt_ml.file("../my code/train.py", "")
    odd = opt_ml.file("../my%20code#1?/train.py", "")
    assert find(submit_directory=f"file://{tmp_path}/my%20code").command[-1] == str(mine)
    assert find(submit_directory=f"{tmp_path}/my%20code#1?").command[-1] == str(odd)


def test_nothing_else_is_tried_after_the_submit_directory(find, opt_ml, tmp_path):
    """A program that isn't in the submit directory is missing: an older one is no substitute."""
    opt_ml.file("code/train.py", "")
    opt_ml.file("../mine/fit.py", "")
    with pytest.raises(CodeError) as error:
        find(submit_directory=str(tmp_path / "mine"))
    assert error.value.remedy == f"{tmp_path}/mine holds: fit.py"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "https://example.com/a.git",
            "code from https:// is not supported: https://example.com/a.git",
        ),
        ("/no/such/folder", "the submit directory /no/such/folder .* does not exist"),
        ("file:///no/such/folder", "the submit directory /no/such/folder .* does not exist"),
    ],
)
def test_addresses_that_are_refused(find, opt_ml, address: str, message: str):
    """An address that can't be used is an error, whatever else lies in the image."""
    opt_ml.file("code/train.py", "")
    with pytest.raises(CodeError, match=message):
        find(submit_directory=address)


@pytest.fixture
def pack():
    """Return a function that makes an archive of files, by their names and texts."""

    def pack_it(path: Path, files: dict[str, str], mode: str = "w:gz") -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, mode) as archive:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return str(path)

    return pack_it


@pytest.mark.parametrize("form", ["{}", "file://{}"])
@pytest.mark.parametrize(("name", "mode"), [("sourcedir.tar.gz", "w:gz"), ("code.tar", "w")])
def test_an_archive(find, opt_ml, pack, form: str, name: str, mode: str):
    """An archive is unpacked to where scripts expect their code, if nothing is there."""
    path = pack(opt_ml.base / "input/data/code" / name, {"train.py": "x", "util.py": ""}, mode)
    code = find(submit_directory=form.format(path))
    assert code.directory == f"{opt_ml.base}/code"
    assert sorted(os.listdir(code.directory)) == ["train.py", "util.py"]
    assert code.command == (python(), f"{opt_ml.base}/code/train.py")
    assert (
        f"code: {form.format(path)} (hyperparameter sagemaker_submit_directory) is in"
        in code.notes[0]
    )


def test_an_archive_wins_over_files_of_the_image(find, opt_ml, pack):
    """It gets a folder of its own, and the log has both: no file of another version is in it."""
    opt_ml.file("code/helper.py", "old")
    path = pack(opt_ml.base / "s.tar.gz", {"train.py": "new"})
    code = find(submit_directory=path)
    assert os.listdir(code.directory) == ["train.py"]
    assert not code.directory.startswith(str(opt_ml.base / "code"))
    (note,) = [note for note in code.notes if "helper.py" in note]
    assert f"{path} (hyperparameter sagemaker_submit_directory) is used" in note
    assert f"{opt_ml.base}/code (in the image) holds helper.py, which is not" in note


def test_a_temporary_folder_goes_with_the_run(opt_ml, make_job, pack):
    """What was unpacked outside of /opt/ml is removed; what is in /opt/ml/code stays."""
    path = pack(opt_ml.base / "s.tar.gz", {"train.py": ""})
    job = make_job(paths=Paths(str(opt_ml.base)), submit_directory=path)
    scratch = Scratch(f"{opt_ml.base}/code")
    first, second = (locate(job, read_settings({}), PYTHON, scratch).directory for _ in range(2))
    scratch.remove()
    assert (os.path.isdir(first), os.path.exists(os.path.dirname(second))) == (True, False)


def test_a_top_folder_is_entered(find, opt_ml, pack):
    """An archive of one folder is that folder, unless the entry point names the folder itself."""
    path = pack(opt_ml.base / "s.tar.gz", {"project/train.py": ""})
    assert find(submit_directory=path).directory == f"{opt_ml.base}/code/project"
    code = find(submit_directory=path, program="project.train")
    assert code.command[-2:] == ("-m", "project.train")
    assert os.path.basename(code.directory) == "code"


@pytest.mark.parametrize(
    "names", [["sourcedir.tar.gz"], ["mine.tgz"], ["a.tar", "sourcedir.tar.gz"]]
)
def test_a_channel_that_holds_an_archive(find, opt_ml, pack, names: list[str]):
    """The channel `code` may be the archive itself: the only one, or the SDK's."""
    for name in names:
        wanted = name == names[-1]
        files = {"train.py": ""} if wanted else {"other.py": ""}
        pack(
            opt_ml.base / "input/data/code" / name, files, "w" if name.endswith(".tar") else "w:gz"
        )
    code = find()
    assert code.directory == f"{opt_ml.base}/code"
    assert code.notes == (
        f"code: {opt_ml.base}/input/data/code (the channel code) is in {code.directory}",
    )


def test_an_archive_that_is_no_code(find, opt_ml):
    """Only the channel's data may be the code itself: elsewhere an archive is not even opened."""
    opt_ml.file("code/weights.tar", "not for us")
    assert find(program="json.tool").command[-1] == "json.tool"
    with pytest.raises(CodeError, match=r"the entry point train\.py"):
        find()


def test_a_place_that_can_not_be_listed(find, opt_ml, monkeypatch):
    """A note is not worth a job: what this user can't list counts as empty."""
    opt_ml.file("code/other.py", "")
    mine = opt_ml.file("../mine/train.py", "")

    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert find(submit_directory=str(mine.parent)).command[-1] == str(mine)


def test_what_was_cut_short_is_removed(opt_ml):
    """An unpacking that the job's end has cut short leaves nothing beside /opt/ml/code."""
    scratch = Scratch(f"{opt_ml.base}/code")
    scratch.folder()
    left = opt_ml.base / f".muster-unpack-{os.getpid()}-x"
    others = opt_ml.base / ".muster-unpack-1-x"
    for folder in (left, others):
        folder.mkdir()
    scratch.remove()
    assert (left.exists(), others.exists()) == (False, True)


def test_an_archive_beside_the_program_stays_packed(find, opt_ml, pack):
    """Where the program is, an archive is data."""
    opt_ml.file("input/data/code/train.py", "")
    pack(opt_ml.base / "input/data/code/data.tar.gz", {"train.py": ""})
    assert find().directory == f"{opt_ml.base}/input/data/code"
    assert not (opt_ml.base / "code").exists()


def test_a_broken_archive(find, opt_ml):
    """It is an error of the code, and nothing of it stays."""
    path = opt_ml.file("s.tar.gz", "\x1f\x8b")
    with pytest.raises(CodeError, match=r"s.tar.gz"):
        find(submit_directory=str(path))
    assert sorted(os.listdir(opt_ml.base)) == ["s.tar.gz"]


def test_the_channel_comes_before_the_variable(find, opt_ml, tmp_path):
    """The channel is this job's, the variable may be the image's; a hyperparameter is before both."""
    opt_ml.file("input/data/code/train.py", "")
    opt_ml.file("../mine/train.py", "")
    mine = str(tmp_path / "mine")
    code = find(submit_directory=mine, submit_source="SAGEMAKER_SUBMIT_DIRECTORY")
    assert code.directory == f"{opt_ml.base}/input/data/code"
    (note,) = code.notes
    loser = f"{mine} (SAGEMAKER_SUBMIT_DIRECTORY), which has train.py too"
    assert note == f"code: {code.directory} (the channel code) wins over {loser}"
    assert find(submit_directory=mine).directory == mine
    os.unlink(opt_ml.base / "input/data/code/train.py")
    code = find(submit_directory=mine, submit_source="SAGEMAKER_SUBMIT_DIRECTORY")
    assert code.directory == mine


@pytest.mark.parametrize("address", ["s3://[", "//[x", "file://[", "s3://[x]/a"])
def test_an_address_of_no_sense_is_refused(find, address: str):
    """An address that is no address ends with an error about the code, as any other."""
    with pytest.raises(CodeError):
        find(submit_directory=address)


@pytest.mark.parametrize("program", ["./pkg/train.py", "pkg/train.py", "pkg/../pkg/train.py"])
def test_a_program_in_a_sub_folder(find, opt_ml, program: str):
    """An entry point may lie in a sub-folder, with or without ./ in front."""
    opt_ml.file("code/pkg/train.py", "")
    code = find(program=program)
    assert code.directory == f"{opt_ml.base}/code"
    assert code.command[-1] == f"{opt_ml.base}/code/pkg/train.py"


def test_a_program_with_a_blank(find, opt_ml):
    """A blank in the program's name is a part of it."""
    path = opt_ml.file("code/my train.py", "")
    assert find(program="my train.py").command == (python(), str(path))


def test_the_command_line_looks_here_first(find, opt_ml, tmp_path, monkeypatch):
    """`muster train SCRIPT` means the script in the current folder, as at any prompt."""
    opt_ml.file("code/train.py", "")
    here = opt_ml.file("../train.py", "")
    monkeypatch.chdir(tmp_path)
    assert find(program_source="the command line").command[-1] == str(here)
    assert find(program_source="SAGEMAKER_PROGRAM").command[-1] == f"{opt_ml.base}/code/train.py"


def test_an_absolute_path(find, opt_ml):
    """A program may be named by its absolute path."""
    path = opt_ml.file("../elsewhere/train.py", "")
    opt_ml.file("code/other.py", "")
    assert find(program=str(path)).command[-1] == os.path.normpath(path)


def test_no_program_says_how_to_name_one(find):
    """A job without an entry point is told the three ways to name it."""
    with pytest.raises(ContractError, match="names no entry point") as error:
        find(program=None)
    for way in ("sagemaker_program", "SAGEMAKER_PROGRAM", "muster train SCRIPT"):
        assert way in error.value.remedy


def test_a_missing_program_lists_what_is_there(find, opt_ml):
    """The error names the program, who asked for it, and what each folder holds."""
    for name in ("fit.py", "util.py"):
        opt_ml.file(f"code/{name}", "")
    (opt_ml.base / "input/data/code").mkdir(parents=True)
    with pytest.raises(CodeError) as error:
        find(program="tarin.py")
    assert error.value.what == "the entry point tarin.py (SAGEMAKER_PROGRAM) does not exist"
    assert error.value.remedy.splitlines() == [
        f"{opt_ml.base}/input/data/code holds: nothing",
        f"{opt_ml.base}/code holds: fit.py, util.py",
    ]


def test_a_long_listing_is_cut(find, opt_ml):
    """Of many files the first are named and the rest counted."""
    for number in range(30):
        opt_ml.file(f"code/f{number:02}.py", "")
    with pytest.raises(CodeError) as error:
        find()
    assert error.value.remedy.endswith("f18.py, f19.py and 10 more")


def test_no_code_at_all_says_so(find, opt_ml):
    """Where no folder exists, the error names those that were looked for."""
    with pytest.raises(CodeError) as error:
        find()
    for place in (f"{opt_ml.base}/input/data/code", f"{opt_ml.base}/code", "MUSTER_CODE_DIR"):
        assert place in error.value.remedy


def test_a_folder_is_no_program(find, opt_ml):
    """A folder of the program's name is not the program."""
    (opt_ml.base / "code/train.py").mkdir(parents=True)
    with pytest.raises(CodeError, match=r"is a folder without __main__\.py"):
        find()


def test_a_shell_script_needs_no_python(opt_ml, make_job, tmp_path: Path):
    """An entry point that isn't Python is found on a PATH without Python."""
    path = opt_ml.file("code/run.sh", "#!/bin/sh\n", 0o755)
    job = make_job(paths=Paths(str(opt_ml.base)), program="run.sh")
    code = locate(job, read_settings({}), {"PATH": str(tmp_path)}, Scratch(None))
    assert (code.command, code.is_python) == ((str(path),), False)


def test_an_installed_module(find, opt_ml):
    """A module that is installed needs no code of the job's; one that isn't is missing."""
    opt_ml.file("code/config.yaml", "")
    code = find(program="json.tool")
    assert code.command == (python(), "-m", "json.tool")
    assert code.directory == f"{opt_ml.base}/code"
    with pytest.raises(CodeError, match=r"the entry point json\.nothing"):
        find(program="json.nothing")


@pytest.fixture
def channel(opt_ml):
    """Return a function that makes a channel of the job, with its FIFO in Pipe mode."""

    def make(name: str, mode: str) -> Channel:
        path = opt_ml.base / "input" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == "Pipe":
            os.mkfifo(f"{path}_0")
        else:
            path.mkdir()
        return Channel(name, str(path), mode)

    return make


def test_code_in_pipe_mode_is_refused(find, opt_ml, channel):
    """The code that the job sends can't be had: other code in the image does not take its place."""
    opt_ml.file("code/train.py", "")
    with pytest.raises(CodeError, match="channel code, which is in Pipe mode") as error:
        find(channels=(channel("code", "Pipe"),))
    assert 'input_mode="File"' in error.value.remedy


def test_an_archive_in_a_channel_in_pipe_mode(find, channel):
    """Network isolation and input_mode="Pipe": the SDK names an archive that is no file."""
    sent = channel("code", "Pipe")
    with pytest.raises(CodeError, match="channel code, which is in Pipe mode"):
        find(channels=(sent,), submit_directory=f"{sent.path}/sourcedir.tar.gz")


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_code_in_another_mode(find, opt_ml, channel, mode: str):
    """Where the channel is a folder it holds the code, whatever fills it and whatever the data's mode is."""
    sent = (channel("code", mode), channel("train", "Pipe"), channel("code.old", "Pipe"))
    mine = opt_ml.file("input/data/code/train.py", "")
    assert find(channels=sent).command[-1] == str(mine)


def test_pipe_mode_where_the_code_is_elsewhere(find, opt_ml, channel, monkeypatch):
    """A channel `code` that is not asked for may be in any mode."""
    sent = (channel("code", "Pipe"),)
    mine = opt_ml.file("../mine/train.py", "")
    assert find(channels=sent, submit_directory=str(mine.parent)).command[-1] == str(mine)
    monkeypatch.chdir(mine.parent)
    command = find(channels=sent, program_source="the command line").command
    assert command[-1] == str(mine)


def test_a_command_on_path_needs_no_code(opt_ml, make_job):
    """A benchmark of the image runs as ranks without any code; the log says which file it is."""
    path = opt_ml.file("bin/all_thing_perf", f"#!{sys.executable}\n", 0o755)
    job = make_job(paths=Paths(str(opt_ml.base)), program="all_thing_perf")
    env = {"PATH": f"{path.parent}:{PYTHON['PATH']}"}
    code = locate(job, read_settings({}), env, Scratch(None))
    assert (code.command, code.is_python) == ((str(path),), True)
    assert code.notes == (f"code: all_thing_perf is {path}, on PATH",)


def test_a_named_submit_directory_is_not_left_for_a_command(opt_ml, make_job):
    """Code that is named is never replaced by a command that happens to be on PATH."""
    path = opt_ml.file("bin/all_thing_perf", f"#!{sys.executable}\n", 0o755)
    opt_ml.file("mine/other.py", "")
    job = make_job(
        paths=Paths(str(opt_ml.base)),
        program="all_thing_perf",
        submit_directory=str(opt_ml.base / "mine"),
    )
    with pytest.raises(CodeError, match="all_thing_perf"):
        locate(job, read_settings({}), {"PATH": f"{path.parent}:{PYTHON['PATH']}"}, Scratch(None))
