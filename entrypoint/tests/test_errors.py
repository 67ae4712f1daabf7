from typing import get_args

import pytest

from muster import errors
from muster.errors import STATUS_OF_KIND, Kind, MusterError


def test_every_kind_of_ours_has_a_status():
    """The table covers each kind of failure but the two that have the script's own status."""
    assert set(STATUS_OF_KIND) == set(get_args(Kind)) - {"user", "signal"}


def test_statuses_are_the_published_ones():
    """The statuses are a contract: 70 to 78, each once."""
    assert STATUS_OF_KIND == {
        "contract": 70,
        "code": 71,
        "requirements": 72,
        "plan": 73,
        "rollcall": 74,
        "check": 75,
        "launch": 76,
        "lost": 77,
        "stalled": 78,
    }


@pytest.mark.parametrize("kind", MusterError.__subclasses__())
def test_every_error_has_its_status(kind: type[MusterError]):
    """Each error class ends a run with the status of its kind, and keeps what it was told."""
    error = kind("what", "remedy")
    assert error.status == STATUS_OF_KIND[kind.kind]
    assert (str(error), error.what, error.remedy) == ("what", "what", "remedy")


def test_a_stop_is_no_ordinary_error():
    """A request to stop passes every handler of ordinary exceptions."""
    assert not issubclass(errors.StopRequested, Exception)
    assert errors.StopRequested(15).signum == 15
