"""Input modes, with the files as SageMaker has them: what the harness touches, and what a script finds."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import threading
from collections import Counter
from pathlib import Path

import pytest

IN_ACCESS, IN_OPEN, IN_CLOSE = 0x1, 0x20, 0x8 | 0x10
EVENT = struct.Struct("iIII")

DEFAULTS = {"S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
PIPE = {"TrainingInputMode": "Pipe", **DEFAULTS}
# An augmented manifest needs Pipe or FastFile (contract.md 1.4).
MANIFEST = {"TrainingInputMode": "Pipe", **DEFAULTS, "RecordWrapperType": "RecordIO"}
SHARDED = {"TrainingInputMode": "Pipe", **DEFAULTS, "S3DistributionType": "ShardedByS3Key"}
FAST_FILE = {"TrainingInputMode": "FastFile", **DEFAULTS}
FILE = {"TrainingInputMode": "File", **DEFAULTS}
CHANNELS = {"train": PIPE, "boxes": MANIFEST, "part": SHARDED, "lazy": FAST_FILE, "eval": FILE}
PIPED = ("train", "boxes", "part")


class Watch:
    """What anybody does with some files, by inotify: to watch a FIFO does not open it."""

    def __init__(self, paths: list[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._file >= 0
        for path in paths:
            mask = IN_ACCESS | IN_OPEN | IN_CLOSE
            added = self._libc.inotify_add_watch(self._file, os.fsencode(path), mask)
            assert added > 0, os.strerror(ctypes.get_errno())

    def seen(self) -> Counter[int]:
        """How often each kind of event came since the last call."""
        found: Counter[int] = Counter()
        try:
            data = os.read(self._file, 65536)
        except BlockingIOError:
            return found
        while data:
            _, mask, _, length = EVENT.unpack_from(data)
            found[mask] += 1
            data = data[EVENT.size + length :]
        return found

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def fifos(tmp_path):
    """A job with a channel in each mode: its FIFOs, two epochs of each."""
    base = tmp_path / "ml"
    config, data = base / "input" / "config", base / "input" / "data"
    config.mkdir(parents=True)
    (config / "inputdataconfig.json").write_text(json.dumps(CHANNELS), encoding="utf-8")
    for name in ("lazy", "eval"):
        (data / name).mkdir(parents=True)
    made = [data / f"{name}_{epoch}" for name in PIPED for epoch in (0, 1)]
    for path in made:
        os.mkfifo(path)
    return made


@pytest.fixture
def watch(fifos):
    """A watch over the FIFOs, that sees what is done with them."""
    watch = Watch(fifos)
    os.close(os.open(fifos[0], os.O_RDONLY | os.O_NONBLOCK))
    assert watch.seen()[IN_OPEN] == 1
    yield watch
    watch.close()


TELL = """
    import json, os
    names = ("TRAIN", "BOXES", "PART", "LAZY", "EVAL")
    print("told", json.dumps({name: os.environ["SM_CHANNEL_" + name] for name in names}))
    print("told", os.environ["MUSTER_CHANNEL_MODES"])
    print("told", os.environ["SM_INPUT_DATA_CONFIG"])
"""


@pytest.mark.parametrize("launcher", ["plain", "torchrun"])
def test_nobody_opens_a_fifo_but_the_script(train, fifos, watch, launcher):
    """A whole job that has FIFOs without a writer ends well: nothing of it opens or reads one.
    The script finds the stem of each FIFO, the folder of the rest, and each channel's mode."""
    run = train(TELL, MUSTER_LAUNCHER=launcher, MUSTER_NPROC="2")
    assert run.finish() == 0, run.err
    assert watch.seen() == {}
    for path in fifos:
        with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):  # nobody reads it
            os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    told = [json.loads(line.partition("told ")[2]) for line in run.out.splitlines()[:3]]
    data = fifos[0].parent
    assert told[0] == {name.upper(): f"{data}/{name}" for name in CHANNELS}
    assert told[1] == {name: entry["TrainingInputMode"] for name, entry in CHANNELS.items()}
    assert told[2] == CHANNELS
    warned = "2 ranks share one FIFO: let one rank read, or use FastFile" in run.err
    assert warned == (launcher == "torchrun")


def test_nobody_opens_a_fifo_of_a_job_that_fails(train, watch):
    """Nor does the search for a reason, which names the channels."""
    run = train("open('/opt/ml/input/data/nothing/x')", MUSTER_LAUNCHER="plain")
    assert run.finish() == 1, run.err
    assert watch.seen() == {}


def test_nobody_opens_a_fifo_where_the_job_has_no_list_of_channels(train, fifos, watch):
    """A bare `docker run` has folders alone: they are its channels, and a FIFO is none."""
    (fifos[0].parents[1] / "config" / "inputdataconfig.json").unlink()
    run = train("import os; print(os.environ['SM_CHANNELS'])", MUSTER_LAUNCHER="plain")
    assert run.finish() == 0, run.err
    assert run.out == '["eval","lazy"]\n'
    assert watch.seen() == {}


EPOCHS = """
    import json, os
    if os.environ["RANK"] == "0":
        assert json.loads(os.environ["MUSTER_CHANNEL_MODES"])["train"] == "Pipe"
        for epoch in range(2):
            with open(f"{os.environ['SM_CHANNEL_TRAIN']}_{epoch}", "rb") as fifo:
                print("epoch", epoch, fifo.read().decode(), flush=True)
"""


def test_one_rank_reads_epoch_after_epoch(train, fifos):
    """What the platform writes arrives: a FIFO an epoch, read by the rank that the note asks for."""

    def write() -> None:
        for epoch, path in enumerate(fifos[:2]):
            path.write_bytes(b"records of %d" % epoch)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    run = train(EPOCHS, MUSTER_LAUNCHER="torchrun", MUSTER_NPROC="2")
    assert run.finish() == 0, run.err
    writer.join(10)
    assert run.out.splitlines()[:2] == ["epoch 0 records of 0", "epoch 1 records of 1"]


def test_code_in_pipe_mode_ends_at_once(train, fifos):
    """A job whose code would come through a FIFO says so, with the way out; it does not wait."""
    data = fifos[0].parent
    os.mkfifo(data / "code_0")
    config = data.parent / "config"
    entries = {"code": PIPE, "train": PIPE}
    (config / "inputdataconfig.json").write_text(json.dumps(entries), encoding="utf-8")
    run = train("", MUSTER_LAUNCHER="plain", SAGEMAKER_SUBMIT_DIRECTORY=f"{data}/code")
    assert run.finish() == 71
    assert run.failure[0].startswith("the code would come from channel code, which is in Pipe mode")
    assert 'input_mode="File"' in "\n".join(run.failure)
