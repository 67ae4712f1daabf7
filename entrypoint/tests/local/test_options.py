import pytest

from muster.local.options import Options, parse


def test_defaults():
    """A script alone is one host with one rank."""
    assert parse(["train.py"]) == Options(
        script="train.py",
        arguments=(),
        hosts=1,
        nproc=1,
        channels=(),
        hyperparameters=(),
        out="muster-out",
        launcher=None,
    )


def test_everything():
    """Each option can be given, in any place before the script's own arguments."""
    words = "--hosts 2 train.py --nproc 3 --channel a=/x --channel b=/y=z --hyperparameter lr=1e-3"
    words += " --hyperparameter empty= --out o --launcher plain --backend process"
    assert parse([*words.split(), "--", "--hosts", "9", "--", "a b"]) == Options(
        script="train.py",
        arguments=("--hosts", "9", "--", "a b"),
        hosts=2,
        nproc=3,
        channels=(("a", "/x"), ("b", "/y=z")),
        hyperparameters=(("lr", "1e-3"), ("empty", "")),
        out="o",
        launcher="plain",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "SCRIPT"),
        (["train.py", "--hosts", "0"], "must be 1 to 254"),
        (["train.py", "--hosts", "255"], "must be 1 to 254"),
        (["train.py", "--nproc", "-1"], "must be 1 to 254"),
        (["train.py", "--nproc", "two"], "--nproc"),
        (["train.py", "--channel", "training"], "'training' is not NAME=VALUE"),
        (["train.py", "--channel", "=x"], "'=x' is not NAME=VALUE"),
        (["train.py", "--backend", "docker"], "--backend"),
        (["train.py", "--lr", "1"], "unrecognized arguments: --lr 1"),
    ],
)
def test_mistakes(capsys, words: list[str], message: str):
    """A command line that can't be meant ends with status 2 and says what is wrong."""
    with pytest.raises(SystemExit) as ending:
        parse(words)
    assert ending.value.code == 2
    assert message in capsys.readouterr().err


def test_the_words_stay_as_they_are():
    """Reading a command line changes nothing in it."""
    words = ["train.py", "--", "x"]
    parse(words)
    assert words == ["train.py", "--", "x"]
