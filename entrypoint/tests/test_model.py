import dataclasses
import json

import pytest

from muster.model import Cause, ErrorRecord, Outcome, Paths, RankEnd, to_json


@pytest.mark.parametrize(
    ("code", "status"), [(0, 0), (1, 1), (33, 33), (255, 255), (-9, 137), (-15, 143), (-1, 129)]
)
def test_status_of_a_rank(code: int, status: int):
    """A rank's status is what a shell would report: its code, or 128 and the signal."""
    assert RankEnd(0, 0, 1, code, 0.0).status == status


@pytest.mark.parametrize(
    ("message", "headline"), [("bad label 7", "ValueError: bad label 7"), ("", "ValueError")]
)
def test_headline_of_an_error(message: str, headline: str):
    """An exception is told as Python tells it."""
    assert ErrorRecord("ValueError", message, "", 0.0, 1, 1).headline == headline


def test_an_outcome_is_json():
    """What flows between the stages can be written down as JSON, whole and readable."""
    error = ErrorRecord("E", "größe", "t", 1.0, 2, 1)
    outcome = Outcome(1, Cause("h", "user", 1, "a", 0), (RankEnd(0, 0, 2, 1, 1.5, error=error),))
    text = to_json(outcome)
    assert "größe" in text
    assert json.loads(text) == json.loads(json.dumps(dataclasses.asdict(outcome)))


def test_the_stages_data_is_frozen():
    """No stage changes what another has made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outcome(0).status = 1  # type: ignore[misc]


def test_folders():
    """The folders of the container contract lie where SageMaker mounts them."""
    paths = Paths("/opt/ml")
    assert (paths.config, paths.data) == ("/opt/ml/input/config", "/opt/ml/input/data")
    assert (paths.model, paths.code) == ("/opt/ml/model", "/opt/ml/code")
    assert paths.failure == "/opt/ml/output/failure"
    assert paths.record == "/opt/ml/output/data/muster"
