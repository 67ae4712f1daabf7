"""The five ways in which hyperparameters become arguments."""

from __future__ import annotations

import pytest

from muster.contract import hyperparameters
from muster.contract.argv import MODES
from muster.errors import ContractError
from muster.settings import ARGS_MODES

# What was sent; then, by mode, the arguments that it makes under the key `key`.
TABLE = [
    ("5", {"plain": ["--key", "5"], "toolkit": ["--key", "5"], "equals": ["key=5"]}),
    ("1e5", {"plain": ["--key", "1e5"], "toolkit": ["--key", "100000.0"], "equals": ["key=1e5"]}),
    ("1e10", {"plain": ["--key", "1e10"], "toolkit": ["--key", "10000000000.0"]}),
    ("00123", {"plain": ["--key", "00123"], "toolkit": ["--key", "00123"]}),
    ("true", {"plain": ["--key", "True"], "toolkit": ["--key", "True"], "flags": ["--key"]}),
    ("false", {"plain": ["--key", "False"], "toolkit": ["--key", "False"], "flags": []}),
    ("True", {"plain": ["--key", "True"], "toolkit": ["--key", "True"], "flags": ["--key"]}),
    ("False", {"plain": ["--key", "False"], "flags": [], "equals": ["key=False"]}),
    ("null", {"plain": [], "toolkit": ["--key", ""], "flags": [], "equals": []}),
    ("", {"plain": ["--key", ""], "toolkit": ["--key", ""], "equals": ["key="]}),
    ('""', {"plain": ["--key", ""], "toolkit": ["--key", ""], "flags": ["--key", ""]}),
    ("[1, 2]", {"plain": ["--key", "[1,2]"], "toolkit": ["--key", "[1, 2]"]}),
    ('["a","b"]', {"plain": ["--key", '["a","b"]'], "toolkit": ["--key", "['a', 'b']"]}),
    ('{"b":1,"a":"x"}', {"plain": ["--key", '{"b":1,"a":"x"}'], "toolkit": ["--key", "a=x,b=1"]}),
    ("NaN", {"plain": ["--key", "NaN"], "toolkit": ["--key", "nan"], "equals": ["key=NaN"]}),
    ("a b", {"plain": ["--key", "a b"], "flags": ["--key", "a b"], "equals": ["key=a b"]}),
]
ROWS = [(sent, mode, want) for sent, row in TABLE for mode, want in row.items()]


@pytest.mark.parametrize(("sent", "mode", "want"), ROWS)
def test_what_a_value_becomes(sent, mode, want):
    """Each mode's form of each kind of value."""
    assert list(MODES[mode](hyperparameters.split({"key": sent}).user)) == want


def test_keys():
    """One letter is a short option, keys are otherwise unchanged, and `equals` takes Hydra's +."""
    user = hyperparameters.split({"k": "1", "batch-size": "2", "+exp": "a"}).user
    assert MODES["plain"](user) == ("--+exp", "a", "--batch-size", "2", "-k", "1")
    assert MODES["equals"](user) == ("+exp=a", "batch-size=2", "k=1")


@pytest.mark.parametrize("sent", ['{"a":"hunter2\\u0000"}', '{"\\u0000":1}', '{"a":"\\ud800"}'])
def test_what_only_json_can_hold(sent: str):
    """A NUL byte in an object is escaped in JSON, and bare in the toolkit's form: refused by the
    key's name before anything starts, without the value. Half a surrogate pair is refused anyhow."""
    with pytest.raises(ContractError, match="hyperparameter 'key' holds") as error:
        MODES["toolkit"](hyperparameters.split({"key": sent}).user)
    assert "hunter2" not in error.value.what + error.value.remedy


def test_none_gives_nothing():
    """The script of `none` reads its hyperparameters from the environment."""
    assert MODES["none"](hyperparameters.split({"lr": "1"}).user) == ()


def test_every_mode_of_the_settings_is_there():
    """MUSTER_ARGS accepts exactly the modes that exist."""
    assert tuple(MODES) == ARGS_MODES
