import pytest

from muster.model import Cause, Channel
from muster.report.hints import with_hint

CHANNELS = (
    Channel("training", "/opt/ml/input/data/training", "File"),
    Channel("events", "/opt/ml/input/data/events", "Pipe"),
)
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "


def cause(headline: str, remedy: str = "") -> Cause:
    return Cause(headline, "user", 1, "algo-1", 0, "", remedy)


@pytest.mark.parametrize(
    ("headline", "missing"),
    [
        ("KeyError: 'SM_CHANNEL_TRAIN'", "train"),
        (f"{NO_FILE}'/opt/ml/input/data/train/a.csv'", "train"),
        (f"{NO_FILE}'/opt/ml/input/data/train'", "train"),
    ],
)
def test_a_missing_channel_lists_those_there_are(make_job, headline: str, missing: str):
    """Who asks for a channel that wasn't sent is told the channels that were."""
    told = with_hint(cause(headline), make_job(channels=CHANNELS))
    assert told.remedy == f"The job has no channel {missing}. Its channels: training, events."
    assert with_hint(cause(headline), make_job()).remedy.endswith("Its channels: none.")


@pytest.mark.parametrize(
    "headline",
    [
        "KeyError: 'train'",
        f"{NO_FILE}'/opt/ml/input/data/training/a.csv'",
        f"{NO_FILE}'/opt/ml/input/data/events_0'",
        f"{NO_FILE}'/opt/ml/model/x'",
        f"{NO_FILE}'/opt/ml/input/data/'",
        "ValueError: bad label 7",
    ],
)
def test_other_errors_get_no_hint(make_job, headline: str):
    """A hint that is wrong is worse than none."""
    assert with_hint(cause(headline), make_job(channels=CHANNELS)).remedy == ""


def test_a_remedy_stays(make_job):
    """What was known already is not replaced, and without a job nothing is known."""
    known = cause("KeyError: 'SM_CHANNEL_TRAIN'", remedy="Look.")
    assert with_hint(known, make_job()) == known
    assert with_hint(cause("KeyError: 'SM_CHANNEL_TRAIN'"), None).remedy == ""
