import socket
from collections.abc import Sequence
from typing import Any

import pytest

from muster.contract import read_contract
from muster.errors import ContractError
from muster.model import Channel
from muster.settings import read_settings


@pytest.fixture
def read(opt_ml):
    """Return a function that reads the job from the folder, variables and a command line."""

    def read_it(env: dict[str, str] | None = None, words: Sequence[str] = ()):
        env = opt_ml.env | (env or {})
        return read_contract(read_settings(env), env, words)

    return read_it


def test_nothing_is_a_job_of_one_host(read, opt_ml):
    """Without any of SageMaker's files there is a job: this machine, no channels, no program."""
    job = read()
    assert job.name == "local"
    assert job.hosts == (socket.gethostname(),)
    assert job.current_host == socket.gethostname()
    assert (job.program, job.program_source) == (None, "")
    assert (job.channels, job.hyperparameters, job.reserved) == ((), (), {})
    assert job.submit_directory is None
    assert job.paths.model == f"{opt_ml.base}/model"
    assert job.notes == ()


def test_a_whole_job(read, opt_ml):
    """The three files of a job of two hosts come together as one job."""
    opt_ml.config(
        "hyperparameters",
        {
            "epochs": "5",
            "greeting": '"good day"',
            "sagemaker_container_log_level": "20",
            "sagemaker_job_name": '"pets-2021-03-04-05-06-07-890"',
            "sagemaker_program": '"fit.py"',
            "sagemaker_region": '"eu-west-1"',
            "sagemaker_submit_directory": '"s3://bucket/pets/source/sourcedir.tar.gz"',
        },
    )
    opt_ml.config(
        "resourceconfig",
        {
            "current_host": "algo-2",
            "current_instance_type": "ml.p4d.24xlarge",
            "current_group_name": "homogeneousCluster",
            "hosts": ["algo-1", "algo-2"],
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": "ml.p4d.24xlarge",
                    "hosts": ["algo-1", "algo-2"],
                }
            ],
            "network_interface_name": "lo",
            "topology": None,
        },
    )
    opt_ml.config(
        "inputdataconfig",
        {
            "pets": {
                "TrainingInputMode": "FastFile",
                "S3DistributionType": "FullyReplicated",
                "RecordWrapperType": "None",
            },
            "labels": {"TrainingInputMode": "Pipe"},
        },
    )
    job = read()
    assert job.name == "pets-2021-03-04-05-06-07-890"
    assert (job.current_host, job.hosts) == ("algo-2", ("algo-1", "algo-2"))
    assert job.instance_type == "ml.p4d.24xlarge"
    assert job.interface == "lo"
    assert [(item.key, item.value) for item in job.hyperparameters] == [
        ("epochs", 5),
        ("greeting", "good day"),
    ]
    data = f"{opt_ml.base}/input/data"
    assert job.channels == (
        Channel("labels", f"{data}/labels", "Pipe"),
        Channel("pets", f"{data}/pets", "FastFile"),
    )
    assert (job.program, job.program_source) == ("fit.py", "hyperparameter sagemaker_program")
    assert job.submit_directory == "s3://bucket/pets/source/sourcedir.tar.gz"
    assert job.resource_config["topology"] is None
    assert set(job.input_data_config) == {"pets", "labels"}
    assert job.notes == ()


@pytest.mark.parametrize("encode", ['"{}"', "{}"], ids=["encoded", "raw"])
def test_reserved_values_encoded_or_not(read, opt_ml, encode: str):
    """A caller that doesn't JSON-encode is understood as well as one that does."""
    opt_ml.config("hyperparameters", {"sagemaker_program": encode.format("train.py")})
    assert read().program == "train.py"


@pytest.mark.parametrize("name", ["hyperparameters", "resourceconfig", "inputdataconfig"])
def test_a_broken_file_is_named(read, opt_ml, name: str):
    """Each of the three files is named when it is the one that can't be read."""
    opt_ml.config(name, "{")
    with pytest.raises(ContractError, match=f"{opt_ml.base}/input/config/{name}.json is not JSON"):
        read()


@pytest.mark.parametrize(
    ("words", "variable", "hyperparameter", "program", "source"),
    [
        (["a.py", "-x"], "b.py", "c.py", "a.py", "the command line"),
        ([], "b.py", "c.py", "b.py", "SAGEMAKER_PROGRAM"),
        ([], "", "c.py", "c.py", "hyperparameter sagemaker_program"),
        ([], "b.py", "", "b.py", "SAGEMAKER_PROGRAM"),
        ([], "", "", None, ""),
    ],
)
def test_who_names_the_program(
    read, opt_ml, words: list[str], variable: str, hyperparameter: str, program: Any, source: str
):
    """The command line wins over the variable, which wins over the hyperparameter."""
    opt_ml.config("hyperparameters", {"sagemaker_program": hyperparameter})
    job = read({"SAGEMAKER_PROGRAM": variable}, words)
    assert (job.program, job.program_source) == (program, source)
    assert job.program_args == tuple(words[1:])


def test_a_conflict_is_noted_with_both_values(read, opt_ml):
    """Two places that disagree about the program are both named in a note."""
    opt_ml.config("hyperparameters", {"sagemaker_program": "b.py"})
    (note,) = read({"SAGEMAKER_PROGRAM": "a.py"}).notes
    for part in ("a.py", "SAGEMAKER_PROGRAM", "b.py", "sagemaker_program"):
        assert part in note


def test_agreement_is_no_conflict(read, opt_ml):
    """Two places that say the same are not worth a note."""
    opt_ml.config("hyperparameters", {"sagemaker_program": '"a.py"'})
    assert read({"SAGEMAKER_PROGRAM": "a.py"}).notes == ()


@pytest.mark.parametrize(
    ("variable", "hyperparameter", "expected"),
    [
        ("/opt/proj", None, "/opt/proj"),
        ("/opt/proj", '"/opt/job"', "/opt/job"),
        ("", '"/opt/job"', "/opt/job"),
    ],
)
def test_submit_directory(read, opt_ml, variable: str, hyperparameter: str | None, expected: str):
    """The variable alone works; the hyperparameter is this job's and wins."""
    values = {} if hyperparameter is None else {"sagemaker_submit_directory": hyperparameter}
    opt_ml.config("hyperparameters", values)
    assert read({"SAGEMAKER_SUBMIT_DIRECTORY": variable}).submit_directory == expected


@pytest.mark.parametrize(
    ("variable", "hyperparameter", "name"),
    [("from-env", "from-sdk", "from-env"), ("", "from-sdk", "from-sdk"), ("", "", "local")],
)
def test_name_of_the_job(read, opt_ml, variable: str, hyperparameter: str, name: str):
    """The platform's own variable wins; then what the SDK sent; a job by hand is local."""
    opt_ml.config("hyperparameters", {"sagemaker_job_name": hyperparameter})
    assert read({"TRAINING_JOB_NAME": variable}).name == name


@pytest.mark.parametrize("entry", [None, {}, "File", {"TrainingInputMode": None}])
def test_a_channel_with_little_said(read, opt_ml, entry: Any):
    """A channel whose entry says nothing is one of files."""
    opt_ml.config("inputdataconfig", {"train": entry})
    assert read().channels == (Channel("train", f"{opt_ml.base}/input/data/train", "File"),)


def test_channels_of_a_bare_container(read, opt_ml):
    """Without SageMaker's files, folders that were mounted as data are the channels."""
    opt_ml.file("input/data/train/x", "")
    opt_ml.file("input/data/my-data/x", "")
    opt_ml.file("input/data/train-manifest", "")
    job = read()
    data = f"{opt_ml.base}/input/data"
    assert job.channels == (
        Channel("my-data", f"{data}/my-data", "File"),
        Channel("train", f"{data}/train", "File"),
    )
    assert list(job.input_data_config) == ["my-data", "train"]


def test_a_job_without_channels_has_none(read, opt_ml):
    """In a real job only what SageMaker names is a channel, whatever else lies there."""
    opt_ml.file("input/data/lost+found/x", "")
    opt_ml.config("resourceconfig", {"current_host": "a", "hosts": ["a"]})
    assert read().channels == ()


def test_a_missing_interface_is_noted(read, opt_ml):
    """An interface that is not on this host is not used, and the job's notes say so."""
    opt_ml.config(
        "resourceconfig",
        {"current_host": "a", "hosts": ["a"], "network_interface_name": "ethwe"},
    )
    job = read()
    assert job.interface != "ethwe"
    assert "ethwe" in job.notes[0]


def test_a_slash_at_the_end_of_the_base(opt_ml):
    """The folder may be given with a slash at its end."""
    env = {"SAGEMAKER_BASE_DIR": f"{opt_ml.base}/"}
    assert read_contract(read_settings(env), env).paths.base == str(opt_ml.base)


def test_options_alone_are_for_the_script_that_is_named_elsewhere(read, opt_ml):
    """`train --epochs 3` gives arguments; it names no script."""
    opt_ml.config("hyperparameters", {"sagemaker_program": "train.py"})
    job = read(words=["--epochs", "3"])
    assert job.program == "train.py"
    assert job.program_args == ("--epochs", "3")


def test_two_submit_directories_are_told(read, opt_ml):
    """The job's own wins over the image's, and the log has both."""
    opt_ml.config("hyperparameters", {"sagemaker_submit_directory": "/job"})
    job = read({"SAGEMAKER_SUBMIT_DIRECTORY": "/image"})
    assert job.submit_directory == "/job"
    (note,) = job.notes
    assert note == (
        "submit directory /job from hyperparameter sagemaker_submit_directory "
        "wins over /image from SAGEMAKER_SUBMIT_DIRECTORY"
    )


@pytest.mark.parametrize("tuning", [True, False])
def test_two_names_of_a_job_are_told(read, opt_ml, tuning: bool):
    """Both names are in the log, but for a tuning job, whose jobs have names of their own."""
    objective = {"_tuning_objective_metric": "loss"} if tuning else {}
    opt_ml.config("hyperparameters", {"sagemaker_job_name": '"pets"', **objective})
    job = read({"TRAINING_JOB_NAME": "pets-001-0a1b2c3d"})
    assert job.name == "pets-001-0a1b2c3d"
    assert bool(job.notes) == (not tuning)
