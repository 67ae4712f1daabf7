from pathlib import Path

import pytest

from muster.contract import read_contract
from muster.errors import CodeError, ContractError
from muster.local.folders import channels, make_hosts, names_command
from muster.local.options import Options, parse
from muster.model import Channel
from muster.settings import read_settings


@pytest.fixture
def options(tmp_path: Path):
    """Return a function that parses a command line for a script that exists."""
    (tmp_path / "train.py").touch()

    def make(*words: str) -> Options:
        return parse([str(tmp_path / "train.py"), *words])

    return make


def test_the_harness_can_read_what_was_written(options, tmp_path):
    """Each host's folder is a contract that the harness reads back as the job that was asked for."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.npz").touch()
    chosen = options(
        *("--hosts", "12", "--channel", f"training={tmp_path / 'data'}"),
        *("--hyperparameter", "lr=1e-3", "--hyperparameter", "note=a b"),
    )
    hosts = make_hosts(chosen, str(tmp_path / "out"))
    names = tuple(f"algo-{number}" for number in range(1, 13))
    assert tuple(host.name for host in hosts) == names
    for host in hosts:
        job = read_contract(read_settings({"SAGEMAKER_BASE_DIR": host.paths.base}), {})
        assert (job.current_host, job.hosts) == (host.name, names)
        assert [(item.key, item.text) for item in job.hyperparameters] == [
            ("lr", "1e-3"),
            ("note", "a b"),
        ]
        assert job.channels == (Channel("training", f"{host.paths.data}/training", "File"),)
        assert (Path(host.paths.data) / "training" / "x.npz").exists()
        assert (job.interface, job.instance_type, job.notes) == ("lo", "local", ())


def test_every_host_has_its_own_address(options, tmp_path):
    """Hosts are told apart by their loopback addresses, from 127.0.0.1 on."""
    hosts = make_hosts(options("--hosts", "3"), str(tmp_path / "out"))
    assert [host.address for host in hosts] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]


def test_one_model_folder_for_all(options, tmp_path):
    """What any host saves as the model lies in the job's model folder; outputs stay apart."""
    one, two = make_hosts(options("--hosts", "2"), str(tmp_path / "out"))
    (Path(one.paths.model) / "model.pt").touch()
    assert (Path(two.paths.model) / "model.pt").exists()
    assert (tmp_path / "out" / "model" / "model.pt").exists()
    assert one.paths.output_data != two.paths.output_data


def test_what_is_mounted_into_containers(options, tmp_path):
    """For containers the code is a channel, channels are folders to mount on, and the interface is
    Docker's."""
    words = ("--backend", "docker", "--channel", f"training={tmp_path}")
    (host,) = make_hosts(options(*words), str(tmp_path / "out"))
    job = read_contract(read_settings({"SAGEMAKER_BASE_DIR": host.paths.base}), {})
    assert [channel.name for channel in job.channels] == ["code", "training"]
    assert not any((Path(host.paths.data) / name).is_symlink() for name in ("code", "training"))
    assert '"eth0"' in (Path(host.paths.config) / "resourceconfig.json").read_text()
    assert channels(options(*words))[1] == ("code", str(tmp_path))
    assert channels(options()) == ()


def test_the_channel_of_the_code_is_taken(options, tmp_path):
    """With containers a channel `code` of the user's own is refused, and the reason is told."""
    words = ["--channel", f"code={tmp_path}"]
    with pytest.raises(ContractError, match="channel code: with --backend docker it is the script"):
        make_hosts(options("--backend", "docker", *words), str(tmp_path / "out"))
    assert len(make_hosts(options(*words), str(tmp_path / "out"))) == 1


def test_a_missing_script(tmp_path):
    """A script that isn't there is an error before any folder is made."""
    with pytest.raises(CodeError, match=r"the script nothing\.py does not exist"):
        make_hosts(parse(["nothing.py"]), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_missing_channel(options, tmp_path):
    """A channel without a folder is an error that names both."""
    with pytest.raises(ContractError, match="channel training: the folder /no/such does not exist"):
        make_hosts(options("--channel", "training=/no/such"), str(tmp_path / "out"))


@pytest.mark.parametrize("name", ["a", "a/b", "..", "."])
def test_a_channel_that_cannot_be(options, tmp_path, name: str):
    """A channel that is given twice, or whose name is no folder's, is one clear error."""
    words = ["--channel", f"{name}={tmp_path}", "--channel", f"{name}={tmp_path}"]
    with pytest.raises(ContractError):
        make_hosts(options(*words), str(tmp_path / "out"))


def test_a_command_brings_no_code(tmp_path, monkeypatch):
    """A name that is no file may be a command: its folder is nobody's code. A file of that name is a script."""
    monkeypatch.chdir(tmp_path)
    command = parse(["all_thing_perf", "--backend", "docker"])
    assert names_command(command)
    assert channels(command) == ()
    make_hosts(command, str(tmp_path / "out"))
    (tmp_path / "all_thing_perf").touch()
    assert not names_command(command)
    assert channels(command) == (("code", str(tmp_path)),)


@pytest.mark.parametrize("script", ["absent.py", "./all_thing_perf", "run.sh", "train"])
def test_a_missing_script_is_no_command(script, tmp_path, monkeypatch):
    """What has the form of a script, or is a command of the harness, must be there as a file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CodeError, match="does not exist"):
        make_hosts(parse([script]), str(tmp_path / "out"))


def test_checkpoints_that_outlive_the_run(options, tmp_path):
    """Each host has a folder of its own, as on SageMaker, and finds in a second run what it had left."""
    kept = tmp_path / "kept"
    for run in ("first", "second"):
        chosen = options("--hosts", "2", "--checkpoints", str(kept))
        one, two = make_hosts(chosen, str(tmp_path / run))
        job = read_contract(read_settings({"SAGEMAKER_BASE_DIR": one.paths.base}), {})
        (Path(job.checkpoints) / run).touch()
        assert (kept / "algo-1" / run).exists()
        assert not (Path(two.paths.checkpoints) / run).exists()
    assert (Path(one.paths.checkpoints) / "first").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ContractError, match="--checkpoints"):
        make_hosts(options("--checkpoints", str(tmp_path / "file")), str(tmp_path / "third"))
