import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.contract.files import read_object
from muster.errors import ContractError

NAME = "hyperparameters"
FILE = "hyperparameters.json"


@pytest.fixture
def read(opt_ml):
    """Return a function that reads the file from what was written; None: it is not there."""

    def read_it(content: Any) -> dict[str, Any]:
        folder = opt_ml.base / "input" / "config"
        if content is not None:
            opt_ml.config(NAME, content)
        return read_object(str(folder), FILE)

    return read_it


def test_absent_is_empty(read):
    """A file that the platform left out means the same as an empty object."""
    assert read(None) == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{}", {}),
        (' {"a": "1"}\n', {"a": "1"}),
        (b'\xef\xbb\xbf{"a": "1"}', {"a": "1"}),
        ('{"a": "größe"}', {"a": "größe"}),
    ],
    ids=["empty object", "blanks around", "byte order mark", "UTF-8"],
)
def test_an_object_is_read(read, content: Any, expected: dict[str, Any]):
    """One JSON object is read, with or without a byte order mark."""
    assert read(content) == expected


@pytest.mark.parametrize("content", ["", " \n"], ids=["zero bytes", "only blanks"])
def test_an_empty_file_is_an_error(read, content: str):
    """Zero bytes are a broken write, and the error says so and names the file."""
    with pytest.raises(ContractError, match=rf"{FILE} is empty$"):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        '{"password": "hunter2',
        '{"password": hunter2}',
        '{"a": "x"} {"password": "hunter2"}',
        b'{"password": "hunter2\xff"}',
        "hunter2",
        "[" * 100_000 + "hunter2",
        '{"hunter2": ' + "9" * 5000 + "}",
    ],
    ids=["cut off", "no quotes", "two", "not UTF-8", "a word", "too deep", "5000 digits"],
)
def test_what_is_not_json_is_one_clear_error(read, content: Any):
    """The error names the file, says what it must hold, and never quotes it."""
    with pytest.raises(ContractError) as error:
        read(content)
    assert f"{FILE} is not JSON" in error.value.what
    assert "\n" not in error.value.what
    assert "hunter2" not in error.value.what + error.value.remedy
    assert error.value.remedy == "It must hold one JSON object."


def test_a_malformed_file_says_where(read):
    """Line and column of the first error are named: a person looks there."""
    with pytest.raises(ContractError, match="line 2, column 8"):
        read('{"a": 1,\n  "b": x}')


@pytest.mark.parametrize(
    ("content", "found"), [("[]", "list"), ('"x"', "str"), ("null", "NoneType"), ("1", "int")]
)
def test_no_object_is_an_error(read, content: str, found: str):
    """JSON that is no object is refused by what it is."""
    with pytest.raises(ContractError, match=f"{FILE} holds {found}, not an object"):
        read(content)


def test_what_cannot_be_opened_is_an_error(opt_ml):
    """A file that can't be read is an error with the system's reason."""
    (opt_ml.base / FILE).mkdir()
    with pytest.raises(ContractError, match=f"{FILE} can't be read: Is a directory"):
        read_object(str(opt_ml.base), FILE)


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_content_is_read_or_refused(tmp_path_factory, content: bytes):
    """Whatever the file holds, the answer is an object or a ContractError."""
    folder = tmp_path_factory.getbasetemp()
    (folder / FILE).write_bytes(content)
    try:
        value = read_object(str(folder), FILE)
    except ContractError:
        return
    assert value == json.loads(content.decode("utf-8-sig"))
