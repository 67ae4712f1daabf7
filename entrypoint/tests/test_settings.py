import contextlib
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import ContractError
from muster.settings import TABLE, Settings, misspelt, read_settings

BAD = [
    ("MUSTER_NPROC", "0"),
    ("MUSTER_NPROC", "-1"),
    ("MUSTER_NPROC", "two"),
    ("MUSTER_NPROC", "1.5"),
    ("MUSTER_NPROC", " "),
    ("MUSTER_MASTER_PORT", "0"),
    ("MUSTER_MASTER_PORT", "65536"),
    ("MUSTER_MASTER_PORT", "http"),
    ("MUSTER_ADDRESSES", "algo-1"),
    ("MUSTER_ADDRESSES", "algo-1="),
    ("MUSTER_ADDRESSES", "=10.0.0.1"),
    ("MUSTER_ADDRESSES", "algo-1=10.0.0.1,algo-2"),
    ("MUSTER_ARGS", "shell"),
    ("MUSTER_EXEC", "yes"),
    ("MUSTER_EXEC", "2"),
    ("MUSTER_STOP_GRACE_S", "-1"),
    ("MUSTER_STOP_GRACE_S", "nan"),
    ("MUSTER_ABORT_GRACE_S", "inf"),
    ("MUSTER_ABORT_GRACE_S", "10s"),
]


def test_the_table_and_the_settings_agree():
    """Each setting is one row, each row one variable, and no variable is read twice."""
    assert list(TABLE) == [field.name for field in dataclasses.fields(Settings)]
    variables = [row.variable for row in TABLE.values()]
    assert len(variables) == len(set(variables))


def test_every_row_tells_what_it_is():
    """A row says what it takes and what it is for: the reference is made of it."""
    for row in TABLE.values():
        assert row.accepts
        assert row.meaning.endswith(".")


def test_defaults():
    """Without any variable everything has the default of its row."""
    assert dataclasses.asdict(read_settings({})) == {
        name: row.default for name, row in TABLE.items()
    }


def test_set_but_empty_is_unset():
    """A variable that is set to nothing counts as not set: SDKs pass empty values."""
    assert read_settings({row.variable: "" for row in TABLE.values()}) == read_settings({})


@pytest.mark.parametrize(("variable", "text"), BAD)
def test_a_bad_value_names_its_variable(variable: str, text: str):
    """A value that can't be read is an error with the variable, the value, and what it takes."""
    with pytest.raises(ContractError) as error:
        read_settings({variable: text})
    (row,) = [row for row in TABLE.values() if row.variable == variable]
    assert error.value.what.startswith(f"{variable}={text!r} ")
    assert row.accepts in error.value.what
    assert error.value.remedy == row.meaning


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("MUSTER_NPROC", "8", "nproc", 8),
        ("MUSTER_MASTER_PORT", "65535", "master_port", 65535),
        ("MUSTER_EXEC", "1", "exec_only", True),
        ("MUSTER_EXEC", "False", "exec_only", False),
        ("MUSTER_STOP_GRACE_S", "0", "stop_grace_s", 0.0),
        ("MUSTER_ABORT_GRACE_S", "2.5", "abort_grace_s", 2.5),
        ("MUSTER_ADDRESSES", "a=::1, b=10.0.0.2,", "addresses", {"a": "::1", "b": "10.0.0.2"}),
        ("MUSTER_ARGS", "plain", "args_mode", "plain"),
        ("MUSTER_LAUNCHER", "plain", "launcher", "plain"),
        ("SAGEMAKER_BASE_DIR", "/tmp/ml", "base_dir", "/tmp/ml"),
        ("SAGEMAKER_PROGRAM", "train.py", "program", "train.py"),
        ("SAGEMAKER_SUBMIT_DIRECTORY", "/opt/proj", "submit_directory", "/opt/proj"),
        ("TRAINING_JOB_NAME", "job-1", "job_name", "job-1"),
    ],
)
def test_a_good_value_is_read(variable: str, text: str, name: str, value: object):
    """A value is read in its type, and only its own setting changes."""
    expected = dataclasses.replace(read_settings({}), **{name: value})
    assert read_settings({variable: text}) == expected


@given(st.dictionaries(st.sampled_from([row.variable for row in TABLE.values()]), st.text()))
def test_any_environment_is_read_or_refused(env: dict[str, str]):
    """Whatever the variables hold, the answer is settings or a ContractError."""
    with contextlib.suppress(ContractError):
        assert len(dataclasses.astuple(read_settings(env))) == len(TABLE)


def test_a_misspelt_variable_is_told():
    """A typing error in a variable's name is not passed over; others' variables are."""
    env = {"MUSTER_NPROCS": "2", "MUSTER_BASE_IMAGE": "x", "MUSTER_NPROC": "2", "PATH": "/bin"}
    assert misspelt(env) == ("unknown variable MUSTER_NPROCS: did you mean MUSTER_NPROC?",)


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"MUSTER_ADMIT": "secret"}, "MUSTER_JOB_SECRET"),
        ({"MUSTER_SILENCE_S": "2"}, "MUSTER_BEAT_S"),
        ({"MUSTER_BEAT_S": "0"}, "MUSTER_BEAT_S"),
    ],
)
def test_settings_that_do_not_go_together(env: dict[str, str], named: str):
    """A combination that could only fail later is refused with both names."""
    with pytest.raises(ContractError, match=named):
        read_settings(env)
