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
        backend="process",
        image="muster/ddp:cpu",
        shm_size="1g",
        checkpoints=None,
    )


def test_everything():
    """Each option can be given, in any place before the script's own arguments."""
    words = "--hosts 2 train.py --nproc 3 --channel a=/x --channel b=/y=z --hyperparameter lr=1e-3"
    words += " --hyperparameter empty= --out o --launcher plain --backend process --checkpoints c"
    assert parse([*words.split(), "--", "--hosts", "9", "--", "a b"]) == Options(
        script="train.py",
        arguments=("--hosts", "9", "--", "a b"),
        hosts=2,
        nproc=3,
        channels=(("a", "/x"), ("b", "/y=z")),
        hyperparameters=(("lr", "1e-3"), ("empty", "")),
        out="o",
        launcher="plain",
        backend="process",
        image="muster/ddp:cpu",
        shm_size="1g",
        checkpoints="c",
    )


def test_containers():
    """With the backend docker the image and the size of /dev/shm can be chosen."""
    chosen = parse(
        ["train.py", "--backend", "docker", "--image", "my/image:1", "--shm-size", "512m"]
    )
    assert (chosen.in_containers, chosen.image, chosen.shm_size) == (True, "my/image:1", "512m")
    chosen = parse(["train.py", "--backend", "docker"])
    assert (chosen.in_containers, chosen.image, chosen.shm_size) == (True, "muster/ddp:cpu", "1g")
    assert not parse(["train.py"]).in_containers


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
        (["train.py", "--backend", "podman"], "--backend"),
        (["train.py", "--image", "x"], "--image and --shm-size are for --backend docker"),
        (["train.py", "--shm-size", "1g"], "--image and --shm-size are for --backend docker"),
        (["train.py", "--backend", "docker", "--shm-size", "1q"], "'1q' is no size such as 512m"),
        (["train.py", "--backend", "docker", "--shm-size", "0"], "'0' is no size"),
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
