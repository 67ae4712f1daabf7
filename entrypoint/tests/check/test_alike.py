import pytest

from muster.check.alike import differing, named


def test_few_and_many_names():
    """A job may have 500 hosts."""
    assert named(["a", "b"]) == "a, b"
    assert named(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, ("", "")),
        ({"a": 1}, ("", "")),
        ({"a": 1, "b": 1, "c": 1}, ("", "")),
        ({"a": 1, "b": 1, "c": 2}, ("c", "v2 on c, v1 on the 2 others")),
        ({"a": 2, "b": 1, "c": 1, "d": 3}, ("a", "v2 on a, v3 on d, v1 on the 2 others")),
        ({"a": 1, "b": 2}, ("a", "v1 on a, v2 on b")),
        ({"a": 2, "b": 1, "c": 2, "d": 1}, ("a", "v2 on a, c, v1 on b, d")),
    ],
    ids=["nobody", "one", "alike", "one odd", "two odd", "two hosts", "halves"],
)
def test_who_differs(values, found):
    """The few are named; of two, neither is known to be right, and both are told."""
    assert differing(values, lambda value: f"v{value}") == found
