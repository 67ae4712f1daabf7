import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.contract import hyperparameters
from muster.contract.argv import MODES, plain
from muster.errors import ContractError

DIGITS = "9" * 5000
"""More than Python turns into an int."""

# What was sent, the text of it, its value, the argument; None where there is no argument.
TABLE: list[tuple[str, Any, str, Any, str | None]] = [
    ("blank inside", "a b", "a b", "a b", "a b"),
    ("shell words", "$HOME `id` *.py; touch x & 'y'", *["$HOME `id` *.py; touch x & 'y'"] * 3),
    ("newline", "a\nb\n", "a\nb\n", "a\nb\n", "a\nb\n"),
    ("empty", "", "", "", ""),
    ("empty, encoded", '""', "", "", ""),
    ("unicode", "größe 日本 🎓", "größe 日本 🎓", "größe 日本 🎓", "größe 日本 🎓"),
    ("unicode, escaped", '"gr\\u00f6\\u00dfe \\ud83c\\udf93"', *["größe 🎓"] * 3),
    ("encoded string", '"reg:squarederror"', *["reg:squarederror"] * 3),
    ("quotes in quotes", '"\\"x\\""', '"x"', '"x"', '"x"'),
    ("encoded digits", '"5"', "5", "5", "5"),
    ("whole number", "5", "5", 5, "5"),
    ("exponent", "1e5", "1e5", 100000.0, "1e5"),
    ("version", "1.10", "1.10", 1.1, "1.10"),
    ("leading zeros", "007", "007", "007", "007"),
    ("commit id", "12e45678", "12e45678", "12e45678", "12e45678"),
    ("blank before", " 3", " 3", 3, " 3"),
    ("minus zero", "-0", "-0", 0, "-0"),
    ("plus", "+1", "+1", "+1", "+1"),
    ("underscore", "1_000", "1_000", "1_000", "1_000"),
    ("23 digits", "1" * 23, "1" * 23, int("1" * 23), "1" * 23),
    ("5000 digits", DIGITS, DIGITS, DIGITS, DIGITS),
    ("NaN", "NaN", "NaN", "NaN", "NaN"),
    ("Infinity", "-Infinity", "-Infinity", "-Infinity", "-Infinity"),
    ("true", "true", "true", True, "True"),
    ("false", "false", "false", False, "False"),
    ("False as text", "False", "False", "False", "False"),
    ("null", "null", "null", None, None),
    ("None as text", "None", "None", "None", "None"),
    ("list", '["a", "b"]', '["a", "b"]', ["a", "b"], '["a","b"]'),
    ("object", '{"x": {"y": 1}}', '{"x": {"y": 1}}', {"x": {"y": 1}}, '{"x":{"y":1}}'),
    ("repr of a dict", "{'a': 1}", "{'a': 1}", "{'a': 1}", "{'a': 1}"),
    ("half JSON", '{"a":', '{"a":', '{"a":', '{"a":'),
    ("an argument itself", "--lr", "--lr", "--lr", "--lr"),
    ("number in the file", 5, "5", 5, "5"),
    ("float in the file", 1.5, "1.5", 1.5, "1.5"),
    ("boolean in the file", True, "true", True, "True"),
    ("null in the file", None, "null", None, None),
    ("list in the file", [1, 2], "[1,2]", [1, 2], "[1,2]"),
]
MANY = settings(max_examples=2000)
"""For texts that others send, in every run."""
ROWS = [pytest.param(*row[1:], id=row[0]) for row in TABLE]

anything = st.text(st.characters())
"""Any characters, halves of surrogate pairs and NUL among them."""
sane = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(("raw", "text", "value", "_argument"), ROWS)
def test_text_and_value(raw: Any, text: str, value: Any, _argument: str | None):
    """A value is decoded on its own: scalars keep their text, JSON loses one level of quotes."""
    item = hyperparameters.decode("key", raw)
    assert (item.key, item.text, item.value) == ("key", text, value)
    assert type(item.value) is type(value)


@pytest.mark.parametrize(("raw", "_text", "_value", "argument"), ROWS)
def test_argument(raw: Any, _text: str, _value: Any, argument: str | None):
    """The script gets each value as one argument, null as none."""
    expected = () if argument is None else ("--key", argument)
    assert plain([hyperparameters.decode("key", raw)]) == expected


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("k", "-k"),
        ("lr", "--lr"),
        ("batch-size", "--batch-size"),
        ("optim.lr", "--optim.lr"),
        ("LR", "--LR"),
        ("_x", "--_x"),
        ("größe", "--größe"),
        ("with blank", "--with blank"),
    ],
)
def test_option(key: str, option: str):
    """A key reaches the script unchanged, behind one dash when it is a single letter."""
    assert plain([hyperparameters.decode(key, "1")]) == (option, "1")


def test_arguments_are_sorted_by_key():
    """The order follows the keys, not the file, and both keys of a pair like lr and LR stay."""
    user = hyperparameters.split({"lr": "1", "k": "2", "LR": "3", "a": "null"}).user
    assert plain(user) == ("--LR", "3", "-k", "2", "--lr", "1")


def test_reserved_are_kept_from_the_script():
    """What SageMaker and its SDK add is not the script's; encoded or raw, it is read as text."""
    split = hyperparameters.split(
        {
            "sagemaker_program": '"train.py"',
            "sagemaker_region": "us-east-1",
            "sagemaker_mpi_enabled": "true",
            "sagemaker_unheard_of": "6",
            "_tuning_objective_metric": "val:loss",
            "default_user_module_name": "m",
            "mp_parameters": '{"a": 1}',
            "sagemakerish": "1",
            "lr": "0.1",
        }
    )
    user, reserved = split.user, split.reserved
    assert [item.key for item in user] == ["lr", "mp_parameters", "sagemakerish"]
    assert reserved == {
        "sagemaker_program": "train.py",
        "sagemaker_region": "us-east-1",
        "sagemaker_mpi_enabled": "true",
        "sagemaker_unheard_of": "6",
        "_tuning_objective_metric": "val:loss",
        "default_user_module_name": "m",
    }


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        ("token", "hunter2\0"),
        ("token", '"hunter2\\u0000"'),
        ("token", '"hunter2\\ud800"'),
        ("token", "hunter2\udfff"),
        ("token", '["hunter2\\ud800"]'),
        ("token", {"hunter2": "\ud800"}),
        ("tok\0en", "hunter2"),
        ("tok\ud800en", "hunter2"),
        ("sagemaker_program", "hunter2\0"),
    ],
)
def test_what_no_program_can_be_given_is_refused(key: str, raw: Any):
    """NUL and half a surrogate pair end with an error that names the key and not the value."""
    with pytest.raises(ContractError) as error:
        hyperparameters.split({key: raw})
    assert repr(key) in error.value.what
    assert "hunter2" not in error.value.what + error.value.remedy
    assert error.value.remedy


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_of_any_depth_ends_well(opening: str):
    """However deep a value is nested, it is either understood or taken as text."""
    closing = {"[": "]", '{"a":': "}"}[opening]
    for depth in [*range(50, sys.getrecursionlimit() + 50, 7), 100_000]:
        raw = opening * depth + "1" + closing * depth
        user = hyperparameters.split({"deep": raw}).user
        plain(user)


@MANY
@given(st.dictionaries(anything, anything | json_values, max_size=4))
def test_whatever_is_sent_is_split_or_refused(raw: dict[str, Any]):
    """No value can do more than be refused; nothing gets lost, and no key has two homes."""
    try:
        user, reserved = (split := hyperparameters.split(raw)).user, split.reserved
    except ContractError:
        return
    assert sorted([item.key for item in user] + list(reserved)) == sorted(raw)


@MANY
@given(anything)
def test_an_encoded_string_comes_back(text: str):
    """What an SDK JSON-encodes is what the script gets, whatever it looks like."""
    assert hyperparameters.decode("key", json.dumps(text)).text == text


@MANY
@given(anything)
def test_a_raw_string_is_kept(text: str):
    """What is no JSON string is passed on exactly as it was sent."""
    item = hyperparameters.decode("key", text)
    assert item.text == text or json.loads(text) == item.text


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | sane,
        lambda inner: st.lists(inner) | st.dictionaries(sane, inner),
        max_leaves=8,
    )
)
def test_lists_and_objects_can_be_parsed_back(value: Any):
    """A list or an object reaches the script as JSON with the same meaning."""
    argv = plain([hyperparameters.decode("key", json.dumps([value]))])
    assert json.loads(argv[1]) == [value]


@MANY
@given(st.dictionaries(sane, sane | json_values, max_size=5))
def test_two_arguments_for_each_that_is_not_null(raw: dict[str, Any]):
    """Each hyperparameter makes exactly an option and a value, or nothing when it is null."""
    try:
        user = hyperparameters.split(raw).user
    except ContractError:
        return
    argv = plain(user)
    present = [item for item in user if item.value is not None]
    assert len(argv) == 2 * len(present)
    assert [option.lstrip("-") for option in argv[::2]] == [i.key.lstrip("-") for i in present]


@MANY
@given(st.dictionaries(sane, sane | json_values, max_size=4))
def test_every_mode_makes_arguments_that_can_be_given(raw: dict[str, Any]):
    """Whatever is sent, and in whatever form it is asked for: it is refused, or each argument is a
    text that the kernel takes."""
    for mode in MODES.values():
        try:
            arguments = mode(hyperparameters.split(raw).user)
        except ContractError:
            continue
        assert all(b"\0" not in argument.encode() for argument in arguments)
