"""Checkpoints as a script sees them. Ranks are threads here, and agree by a barrier."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import errno
import os
import pickle
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.tally import merge
from muster.training import checkpoint
from muster.training.checkpoint import CheckpointError, agreeing, content, sharded, shards
from muster.training.checkpoint.place import Place, find_place
from muster.training.checkpoint.store import Store


class World:
    """The ranks of a job, two a host, and the folders of the hosts: one for all, or one each."""

    def __init__(self, folder: Path, ranks: int = 4, *, shared: bool = True) -> None:
        self.places = [
            Place(
                str(folder if shared else folder / f"algo-{rank // 2 + 1}"),
                f"algo-{rank // 2 + 1}",
                rank,
                ranks,
                rank % 2,
                min(2, ranks),
            )
            for rank in range(ranks)
        ]
        self.start()

    def start(self) -> None:
        """All processes are new, as after a restart."""
        self.stores = [Store(place) for place in self.places]

    def save(self, step: int, *ranks: int, keep: int = 3, scope: shards.Scope = "rank") -> None:
        for rank in ranks or range(len(self.stores)):
            self.stores[rank].save(f"rank {rank} at {step}", step, keep, scope)

    def each(self, call: Callable[[Store], Any]) -> list[Any]:
        """What each rank gets or raises when all call at the same time."""
        told: list[Any] = []
        barrier = threading.Barrier(len(self.stores))

        def agree(tally: Any, _env: Any) -> Any:
            told.append(tally)
            barrier.wait(10)
            return merge(told)

        said: dict[int, Any] = {}

        def every(place: Place, value: Any) -> list[Any]:
            said[place.rank] = value
            barrier.wait(10)
            values = [said[rank] for rank in range(place.world)]
            barrier.wait(10)
            return values

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agreeing, "agree", agree)
            patch.setattr(sharded, "_every", every)
            with concurrent.futures.ThreadPoolExecutor(len(self.stores)) as pool:
                futures = [pool.submit(call, store) for store in self.stores]
                return [future.exception() or future.result() for future in futures]

    def resume(self) -> int | None:
        """What all ranks get, which has to be the same. Raises what all raise."""
        found = self.each(Store.resume)
        assert len({str(each) for each in found}) == 1, found
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def load(self, step: int) -> list[Any]:
        return [store.load(step, weights_only=True) for store in self.stores]


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch):
    """As in a script that has not imported torch: other tests may have."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Where all go on.


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_the_newest_step_that_all_have(tmp_path, shared):
    """A step that one rank has not finished does not count, wherever the hosts' folders are."""
    world = World(tmp_path, shared=shared)
    assert world.resume() is None
    world.save(10)
    world.save(20)
    world.save(30, 0, 1, 2)
    world.start()
    assert world.resume() == 20
    assert world.load(20) == [f"rank {rank} at 20" for rank in range(4)]


def test_a_step_of_two_runs_is_none(tmp_path):
    """What an earlier run had saved at a step is never mixed with what a later one has."""
    world = World(tmp_path)
    world.resume()
    world.save(10)
    world.save(20, 0, 1)
    world.start()
    assert world.resume() == 10
    world.save(20, 2, 3)
    world.start()
    assert world.resume() == 10
    world.save(20)
    world.start()
    assert world.resume() == 20
    # What the earlier runs had saved there is gone.
    assert len([name for name in files(tmp_path) if name.startswith("step-00000020")]) == 4


def test_the_rank_that_lacks_it_is_named_in_the_log(tmp_path, caplog):
    """A newer step that is not used is told, once a job."""
    world = World(tmp_path)
    world.save(10)
    world.save(20, 0, 1, 2)
    world.start()
    assert world.resume() == 10
    (line,) = caplog.messages
    assert line == (
        f"step 20 is not whole on all ranks, as on rank 3 on algo-2 ({tmp_path}): "
        "the training goes on at step 10"
    )


def test_killed_in_the_first_save_begins_anew(tmp_path):
    """Some ranks have the only step, others don't: that is how a first save ends that is killed."""
    world = World(tmp_path)
    world.save(10, 0, 1)
    world.start()
    assert world.resume() is None


def test_a_host_without_its_folder_is_an_error(tmp_path):
    """Where others have several steps and one rank none, nothing was killed: something is missing.
    Beginning anew without a word would throw days away."""
    world = World(tmp_path, shared=False)
    for step in (10, 20):
        world.save(step, 0, 1)
    world.start()
    with pytest.raises(CheckpointError) as caught:
        world.resume()
    assert str(caught.value).startswith(
        f"no checkpoint is whole on all 4 ranks: rank 2 on algo-2 ({tmp_path}/algo-2) has none, "
        "others go up to step 20. "
    )


def test_another_number_of_ranks_is_told_with_both(tmp_path):
    """Four ranks' own states can't be read by two, nor by eight."""
    World(tmp_path).save(10)
    for ranks in (2, 8):
        with pytest.raises(CheckpointError, match=f"saved by 4 ranks, and this job has {ranks}"):
            World(tmp_path, ranks).resume()
        with pytest.raises(CheckpointError, match=f"saved by 4 ranks, and this job has {ranks}"):
            World(tmp_path, ranks).load(10)


def test_the_leaders_state_is_everybodys(tmp_path):
    """Rank 0 writes, all read, and their number may change."""
    world = World(tmp_path)
    world.save(10, scope="leader")
    assert len(list((tmp_path / "step-00000010").iterdir())) == 1
    for ranks in (4, 2, 6):
        again = World(tmp_path, ranks)
        assert again.resume() == 10
        assert again.load(10) == ["rank 0 at 10"] * ranks


def test_the_leaders_state_where_hosts_share_nothing(tmp_path):
    """In a local restart the others lack it, which is told; after S3 has brought it they have it."""
    world = World(tmp_path, shared=False)
    for step in (10, 20):
        world.save(step, scope="leader")
    world.start()
    with pytest.raises(CheckpointError, match=r"rank 2 on algo-2 .* has none"):
        world.resume()
    for path in (tmp_path / "algo-1").glob("step-*/all.*"):
        there = tmp_path / "algo-2" / path.parent.name / path.name
        there.parent.mkdir(parents=True)
        there.write_bytes(path.read_bytes())
    assert world.resume() == 20
    assert world.load(20) == ["rank 0 at 20"] * 4


def test_a_hosts_state_is_its_ranks(tmp_path):
    """The first rank of each host writes for its host."""
    world = World(tmp_path)
    world.save(10, scope="host")
    world.start()
    assert world.resume() == 10
    assert world.load(10) == [f"rank {rank} at 10" for rank in (0, 0, 2, 2)]


def test_hosts_that_train_alone_have_folders_of_their_own(tmp_path):
    """With the launcher plain each host is a world: in one prefix of S3 they don't meet."""
    env = {"SM_HOST_COUNT": "2", "MUSTER_CHECKPOINT_DIR": str(tmp_path)}
    places = [find_place({**env, "SM_CURRENT_HOST": host}) for host in ("algo-1", "algo-2")]
    assert [place.folder for place in places] == [f"{tmp_path}/algo-1", f"{tmp_path}/algo-2"]
    for number, place in enumerate(places):
        Store(place).save(number, 10 + number, 3, "rank")
    assert [Store(place).resume() for place in places] == [10, 11]


# Files.


def test_no_two_ranks_write_one_name(tmp_path):
    """Two hosts that share a folder, or a prefix of S3, never write the same file."""
    world = World(tmp_path)
    paths = [
        store.save(b"", 1, 3, scope)
        for scope in ("rank", "host", "leader")
        for store in world.stores
    ]
    written = [path for path in paths if path]
    assert len(written) == len(set(written)) == 4 + 2 + 1
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "algo-1.latest.json",
        "algo-2.latest.json",
    ]


def test_a_host_is_told_complete_when_it_is(tmp_path):
    """The mark of the latest whole step is written by the last of a host's ranks."""
    world = World(tmp_path)
    world.save(10, 0)
    assert not (tmp_path / "algo-1.latest.json").exists()
    world.save(10, 1)
    assert '"step": 10' in (tmp_path / "algo-1.latest.json").read_text()
    world.save(20, 1)
    assert '"step": 10' in (tmp_path / "algo-1.latest.json").read_text()


def test_old_steps_go(tmp_path):
    """The newest are kept, as many as asked; others' old files go with them."""
    world = World(tmp_path)
    for step in range(1, 8):
        world.save(step, keep=3)
    assert shards.steps(str(tmp_path)) == [7, 6, 5]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_that_all_have_never_goes(tmp_path, keep):
    """Also when all but one rank are a step ahead, in this run and after any restart."""
    world = World(tmp_path)
    begun = 0
    for _ in range(4):
        for step in range(begun + 1, begun + 5):
            world.save(step, keep=keep)
        world.save(begun + 5, 0, 1, 2, keep=keep)  # Rank 3 is killed in this one.
        world.start()
        assert world.resume() == begun + 4
        assert world.load(begun + 4)[3] == f"rank 3 at {begun + 4}"
        begun += 4


def test_what_leads_nowhere_does_not_count_as_kept(tmp_path):
    """Steps that an interrupted run had saved beyond the one that all went back to keep none away."""
    world = World(tmp_path)
    world.save(10)
    world.save(20, 0)
    world.start()
    assert world.resume() == 10
    world.save(30, 0, keep=1)
    world.start()
    assert world.resume() == 10


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("scope", ["rank", "host"])
def test_what_all_went_back_to_outlives_a_save_of_the_same_step(tmp_path, shared, scope):
    """Reclaimed in the first step after a restart, only some ranks save the last finished step again:
    what all have had stays, and after two more such restarts too."""
    world = World(tmp_path, shared=shared)
    world.resume()
    world.save(100, scope=scope)
    for ranks in ((0, 1), (2, 3), (0, 1, 2)):
        world.start()
        assert world.resume() == 100
        assert world.load(100) == [
            f"rank {n if scope == 'rank' else n // 2 * 2} at 100" for n in range(4)
        ]
        world.save(100, *ranks, scope=scope)


def test_a_step_that_is_saved_again_is_what_is_loaded(tmp_path, monkeypatch):
    """Also where it is the one that this run went on from: load() gives what save() was given last."""
    runs = iter(["6a1b2c3d0001", "6a1b2c3d0002", "6a1b2c3d0003"])
    monkeypatch.setattr(agreeing, "new_run", lambda: next(runs))
    world = World(tmp_path, 1)
    last = None
    for state in ("first", "second", "third"):
        world.start()
        assert world.resume() == (10 if last else None)
        assert last is None or world.load(10) == [last]
        world.stores[0].save(state, 10, 3, "rank")
        assert world.load(10) == [state]
        last = state


def test_what_was_saved_again_goes_with_its_step(tmp_path):
    """The files of both runs: the training has passed them."""
    world = World(tmp_path)
    world.resume()
    world.save(10)
    world.start()
    world.resume()
    for step in (10, 20, 30, 40):
        world.save(step)
    assert shards.steps(str(tmp_path)) == [40, 30, 20]


def test_others_files_are_passed_over(tmp_path):
    """Marks of SageMaker's uploader, unfinished files and people's own are no checkpoints, and harm none."""
    world = World(tmp_path)
    world.save(10)
    step = tmp_path / "step-00000010"
    for path in list(step.iterdir()):
        for mark in ("sagemaker-uploading", "sagemaker-uploaded"):
            (step / f"{path.name}.{mark}").touch()
    later = tmp_path / "step-00000020"
    later.mkdir()
    for rank in range(4):
        name = f"algo-{rank // 2 + 1}.rank-{rank}-of-4.000000000000.pkl"
        (later / f"{name}.sagemaker-uploaded").touch()
        (later / f".{name}.99999999.tmp").touch()
    (tmp_path / "step-00000030.sagemaker-uploading").touch()
    (tmp_path / "step-00000040").touch()
    (tmp_path / "notes").mkdir()
    world.start()
    assert world.resume() == 10
    assert world.load(10)[2] == "rank 2 at 10"
    assert not [name for name in files(later) if name.endswith(".tmp")], "left-over files stay"


def test_what_was_not_finished_goes_in_the_next_run(tmp_path):
    """Every file that a kill leaves under its hidden name, wherever one is written; others' own stay."""
    step = tmp_path / "step-00000010"
    for folder in (
        tmp_path,
        step,
        step / "sharded.6a1b2c3d0001",
        step / "sharded.6a1b2c3d0001.0001",
    ):
        folder.mkdir(exist_ok=True)
        (folder / ".notes.tmp").touch()
    left = [".algo-1.latest.json.99999999.tmp", ".algo-2.latest.json.99999999.tmp"]
    left += [
        f"step-00000010/.algo-2.{of}.6a1b2c3d0001.pt.99999999.tmp" for of in ("rank-3-of-4", "host")
    ]
    left += ["step-00000010/.all.6a1b2c3d0001.pt.99999999.tmp"]
    left += [
        f"step-00000010/sharded.6a1b2c3d0001/.rank-{rank}-of-4.json.99999999.tmp"
        for rank in range(4)
    ]
    left += ["step-00000010/sharded.6a1b2c3d0001.0001/.rank-2-of-4.json.99999999.tmp"]
    for name in left:
        (tmp_path / name).touch()
    world = World(tmp_path)
    shards.remove_left_over(str(tmp_path), world.places[1])
    gone = {left[6]}
    assert {name for name in left if not (tmp_path / name).exists()} == gone, "a rank takes its own"
    assert world.resume() is None
    assert {path.name for path in tmp_path.rglob("*.tmp")} == {".notes.tmp"}


def test_a_save_that_fails_leaves_the_one_before(tmp_path, monkeypatch):
    """A full disk is the script's error; nothing half is left, and the step before is whole."""
    store = World(tmp_path, 1).stores[0]
    store.save("good", 10, 3, "rank")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = files(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        store.save("bad", 10, 3, "rank")
    assert files(tmp_path) == before
    assert store.load(10, weights_only=True) == "good"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP])
@pytest.mark.parametrize("call", ["open", "fsync"])
def test_a_folder_that_can_not_be_synced(tmp_path, monkeypatch, call, number):
    """The file is in place: a parent that this user may not open, or a mount that syncs no folder, fails no save."""
    real = getattr(os, call)

    def refuse(path_or_handle, *rest, **named):
        if stat.S_ISDIR(os.stat(path_or_handle).st_mode):
            raise OSError(number, os.strerror(number))
        return real(path_or_handle, *rest, **named)

    store = World(tmp_path, 1).stores[0]
    (tmp_path / "step-00000010").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        path = store.save("good", 10, 3, "rank")
    assert Path(path).is_file()
    assert store.load(10, weights_only=True) == "good"


def test_a_folder_that_the_disk_refuses(tmp_path, monkeypatch):
    """A disk that fails in the end is still an error of the save."""
    real = os.fsync

    def broken(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        return real(handle)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        World(tmp_path, 1).stores[0].save("good", 10, 3, "rank")


@pytest.mark.parametrize(("step", "keep"), [(-1, 3), (1, 0)])
def test_arguments_that_make_no_sense(tmp_path, step, keep):
    """They are an error before anything is written."""
    with pytest.raises(ValueError, match=f"step={step}, keep={keep}"):
        World(tmp_path, 1).stores[0].save("x", step, keep, "rank")
    assert files(tmp_path) == []


# States.


@pytest.mark.parametrize(
    ("state", "ending"), [(b"\x00raw", ".bin"), ({"a": [1, 2.5, None]}, ".pkl")]
)
def test_a_state_without_torch(tmp_path, state, ending):
    """Bytes stay as they are, anything else is pickled: torch is not imported for it."""
    store = World(tmp_path, 1).stores[0]
    path = store.save(state, 1, 3, "rank")
    assert path.endswith(ending)
    assert store.load(1, weights_only=True) == state
    assert "torch" not in sys.modules
    if ending == ".bin":
        assert Path(path).read_bytes() == state


def test_a_file_that_can_not_be_read(tmp_path):
    """A damaged file is told by its path."""
    store = World(tmp_path, 1).stores[0]
    path = store.save({"a": 1}, 1, 3, "rank")
    Path(path).write_bytes(pickle.dumps({"a": 1})[:-3])
    with pytest.raises(CheckpointError, match="can't be read"):
        store.load(1, weights_only=True)


def test_a_step_that_is_not_there(tmp_path):
    """load() of anything but what resume() returned says so."""
    with pytest.raises(CheckpointError, match=r"step 7 in .* has nothing for rank 0"):
        World(tmp_path, 1).load(7)


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        (None, True),
        (".metadata", False),
        ("__1_0.distcp", False),
        ("rank-0-of-2.json", False),
    ],
)
def test_when_a_sharded_step_is_whole(tmp_path, broken, whole):
    """All ranks have left their mark, and what the marks name is here in its size: a part is nothing."""
    path = tmp_path / "step-00000010" / "sharded.6a1b2c3d0001"
    path.mkdir(parents=True)
    for name in ("__0_0.distcp", "__1_0.distcp", "__1_0.distcp.sagemaker-uploaded", ".metadata"):
        (path / name).write_bytes(b"data")
    for rank in (0, 1):
        named = sharded._own_files(str(path), rank)
        assert not any("sagemaker" in name for name in named)
        mark = {"files": named}
        (path / f"rank-{rank}-of-2.json").write_text(str(mark).replace("'", '"'))
    if broken:
        (path / broken).unlink()
    assert [run for run, _ in sharded.whole_runs(str(tmp_path), 10)] == ["6a1b2c3d0001"] * whole
    if whole:
        (path / "__0_0.distcp").write_bytes(b"dat")
        assert not list(sharded.whole_runs(str(tmp_path), 10))


# Sharded states: torch's part is a fake that writes files alike, but for the last test.


@pytest.fixture
def two_hosts(tmp_path, monkeypatch):
    """A job of four ranks on two hosts that share nothing, and what torch would write for it."""

    def write(state, path):
        Path(path, f"__{state['rank']}_0.distcp").write_text(state["text"])
        if state["text"] == "killed":
            raise RuntimeError("killed")
        if state["rank"] == 0:
            Path(path, ".metadata").write_text("list of all")

    monkeypatch.setattr(sharded, "_need_group", lambda _place: None)
    monkeypatch.setattr(sharded, "_write", write)
    monkeypatch.setattr(sharded, "load", lambda state, path, _place: state.append(path))
    return World(tmp_path, shared=False)


def save_sharded(world: World, step: int, text: str = "good", keep: int = 3, **other: str) -> None:
    """All ranks save; `rank_1="killed"` has that one die in torch's writer."""

    def call(store: Store) -> str:
        rank = store.place.rank
        state = {"rank": rank, "text": other.get(f"rank_{rank}", text)}
        return store.save_sharded(state, step, keep)

    done = world.each(call)
    assert [str(each) for each in done if isinstance(each, Exception)] == ["killed"] * len(other)


def restart(world: World, tmp_path: Path) -> None:
    """New processes, after SageMaker has brought all files to all hosts."""
    for source, target in (("algo-1", "algo-2"), ("algo-2", "algo-1")):
        shutil.copytree(tmp_path / source, tmp_path / target, dirs_exist_ok=True)
    world.start()


def loaded(world: World, step: int) -> set[str]:
    """The names of the folders that the ranks load, which has to be one."""
    states: dict[int, list[str]] = {}
    done = world.each(
        lambda store: store.load_sharded(states.setdefault(store.place.rank, []), step)
    )
    assert done == [None] * 4, done
    return {os.path.basename(path) for state in states.values() for path in state}


@pytest.mark.parametrize(("keep", "left"), [(1, 2), (2, 2), (3, 3)])
def test_sharded_steps_are_kept_where_hosts_share_nothing(two_hosts, tmp_path, keep, left):
    """As many as asked, though no host has a whole step before a restart; and after a restart as well."""
    assert two_hosts.resume() is None
    for begun in (0, 40):
        for step in range(begun + 10, begun + 50, 10):
            save_sharded(two_hosts, step, keep=keep)
        newest = [begun + 40 - 10 * back for back in range(left)]
        for host in ("algo-1", "algo-2"):
            assert shards.steps(str(tmp_path / host)) == newest
        restart(two_hosts, tmp_path)
        assert two_hosts.resume() == begun + 40


def test_sharded_steps_that_are_half_are_not_kept(two_hosts, tmp_path):
    """A step of this run in which this rank's own file is damaged keeps no other away."""
    two_hosts.resume()
    for step in (10, 20):
        save_sharded(two_hosts, step)
    for path in tmp_path.glob("algo-*/step-00000020/sharded.*/*.distcp"):
        path.write_text("part of it")
    save_sharded(two_hosts, 30, keep=2)
    assert [shards.steps(str(tmp_path / host)) for host in ("algo-1", "algo-2")] == [[30, 10]] * 2


def test_a_sharded_save_that_is_killed_leaves_the_same_step(two_hosts, tmp_path):
    """Saved once more, a step goes to a folder of its own: what was whole is whole until the next step."""
    two_hosts.resume()
    save_sharded(two_hosts, 20)
    save_sharded(two_hosts, 20, rank_1="killed")
    restart(two_hosts, tmp_path)
    assert two_hosts.resume() == 20
    (name,) = loaded(two_hosts, 20)
    folder = tmp_path / "algo-1" / "step-00000020" / name
    assert {path.read_text() for path in folder.glob("*.distcp")} == {"good"}


def test_a_sharded_step_that_is_saved_again_is_what_is_loaded(two_hosts, tmp_path):
    """The last one that is whole for all ranks, also where some have a later one that others lack."""
    two_hosts.resume()
    save_sharded(two_hosts, 20, "first")
    save_sharded(two_hosts, 20, "second")
    restart(two_hosts, tmp_path)
    assert [name[-5:] for name in loaded(two_hosts, 20)] == [".0001"]
    assert two_hosts.resume() == 20
    assert [name[-5:] for name in loaded(two_hosts, 20)] == [".0001"]
    (mark,) = tmp_path.glob("algo-2/step-00000020/sharded.*.0001/rank-0-of-4.json")
    mark.unlink()
    two_hosts.start()
    assert [len(name) for name in loaded(two_hosts, 20)] == [len("sharded.6a1b2c3d0001")]
    assert two_hosts.resume() == 20
    assert [len(name) for name in loaded(two_hosts, 20)] == [len("sharded.6a1b2c3d0001")]


def test_what_a_sharded_save_has_replaced_goes_with_the_next_step(two_hosts, tmp_path):
    """When the ranks save the next step all have saved this one once more; what failed goes with a new try."""
    two_hosts.resume()
    save_sharded(two_hosts, 20, "first")
    save_sharded(two_hosts, 20, rank_1="killed", rank_0="killed", rank_2="killed", rank_3="killed")
    save_sharded(two_hosts, 20, "third")
    folders = sorted(tmp_path.glob("algo-*/step-00000020/sharded.*"))
    assert [path.name[20:] for path in folders] == ["", ".0002"] * 2
    save_sharded(two_hosts, 30)
    folders = sorted(tmp_path.glob("algo-*/step-00000020/sharded.*"))
    assert [path.name[20:] for path in folders] == [".0002"] * 2
    restart(two_hosts, tmp_path)
    assert two_hosts.resume() == 30
    assert loaded(two_hosts, 20) == {folders[0].name}


REAL = """
    import os, sys
    import torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from muster.training import checkpoint
    where, rank = "file://" + sys.argv[1], int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    def state(start):
        whole = torch.arange(start, start + 8, dtype=torch.float32)
        return {"weight": distribute_tensor(whole, mesh, [Shard(0)])}
    step = checkpoint.resume()
    if step is None:
        for step in (10, 20, 30, 40):
            checkpoint.save_sharded(state(step), step)
        checkpoint.save_sharded(state(41), 40)
    else:
        mine = state(0)
        checkpoint.load_sharded(mine, step)
        assert mine["weight"].full_tensor().tolist() == [41.0 + n for n in range(8)]
        print("resumed", step, flush=True)
    dist.barrier()
    os._exit(0)  # Threads of gloo that are still there can abort an ordinary end.
"""


def test_torchs_own_sharded_states_where_hosts_share_nothing(tmp_path):
    """Two processes and torch itself: the newest steps stay, and the last state of the last one comes back."""
    hosts = ("algo-1", "algo-2")

    def train(name: str) -> list[str]:
        command = [sys.executable, "-c", textwrap.dedent(REAL), str(tmp_path / name)]
        ranks = []
        for rank, host in enumerate(hosts):
            own = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
            own |= {"SM_CURRENT_HOST": host, "MUSTER_CHECKPOINT_DIR": tmp_path / host}
            own |= {"SM_HOST_COUNT": 2, "OMP_NUM_THREADS": 1, "MUSTER_AGREE": ""}
            env = os.environ | {each: str(value) for each, value in own.items()}
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        try:
            told = [rank.communicate(timeout=120)[0] for rank in ranks]
        finally:
            for process in ranks:
                process.kill()
        assert [rank.returncode for rank in ranks] == [0, 0]
        return told

    assert train("first") == ["", ""]
    assert [shards.steps(str(tmp_path / host)) for host in hosts] == [[40, 30, 20]] * 2
    for source, target in (hosts, hosts[::-1]):
        shutil.copytree(tmp_path / source, tmp_path / target, dirs_exist_ok=True)
    assert train("second") == ["resumed 40\n"] * 2


# Who a process is.


def test_a_plain_python_is_alone(tmp_path, monkeypatch):
    """`python train.py`, no launcher and no harness: checkpoints work, in ./checkpoints."""
    for name in ("RANK", "WORLD_SIZE", "MUSTER_AGREE", "MUSTER_CHECKPOINT_DIR", "SM_HOST_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert checkpoint.folder() == f"{tmp_path}/checkpoints"
    assert checkpoint.resume() is None
    checkpoint.save({"x": 1}, 5)
    assert checkpoint.resume() == 5
    assert checkpoint.load(5) == {"x": 1}
    assert checkpoint.resume(folder=str(tmp_path / "other")) is None


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ("local", 0, 1, 0, 1)),
        (
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"},
            ("local", 3, 4, 3, 4),
        ),
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "2",
                "SM_HOST_COUNT": "2",
                "SM_CURRENT_HOST": "algo/2",
            },
            ("algo_2", 3, 4, 1, 2),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            ("local", 1, 2, 1, 2),
        ),
    ],
    ids=["alone", "one-host", "two-hosts", "mpirun"],
)
def test_who_a_rank_is(env, expected):
    """By what every launcher says; one host has no name of its own, as docker run invents one each time."""
    place = find_place(env, "/f")
    assert dataclasses.astuple(place)[1:] == expected


def test_a_rank_that_is_no_number():
    """A variable that somebody has broken is named."""
    with pytest.raises(CheckpointError, match="RANK='x'"):
        find_place({"RANK": "x"})


def test_several_ranks_and_nobody_to_ask(tmp_path):
    """Without a harness and a process group several ranks are told what they need."""
    place = Place(str(tmp_path), "local", 0, 2, 0, 2)
    with pytest.raises(CheckpointError, match="init_process_group"):
        agreeing.agree(agreeing.count(place, [], 0), {})


def test_a_harness_that_is_gone(tmp_path):
    """A socket where nobody listens is an error at once."""
    place = Place(str(tmp_path), "local", 0, 2, 0, 2)
    with pytest.raises(CheckpointError, match="does not answer"):
        agreeing.agree(agreeing.count(place, [], 0), {"MUSTER_AGREE": str(tmp_path / "none")})


def test_only_so_many_steps_are_told(tmp_path):
    """A folder of thousands of steps makes no large message: the newest are enough."""
    place = Place(str(tmp_path), "local", 0, 2, 0, 2)
    tally = agreeing.count(place, [f"{step}.000000000001" for step in range(5000)], 0)
    assert len(tally.keys) == 64
    assert (tally.keys[0], tally.most) == ("4999.000000000001", 5000)


def test_importing_it_imports_nothing_heavy():
    """Neither torch nor the pipeline comes along."""
    code = (
        "import sys\nfrom muster.training import checkpoint\n"
        "print([n for n in sys.modules if n.partition('.')[0] in ('torch', 'numpy') or"
        " n.startswith(('muster.launch', 'muster.channel', 'muster.contract'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_which_way_a_state_is_written(monkeypatch):
    """torch.save where the script has torch, and never for bytes."""
    monkeypatch.setitem(sys.modules, "torch", object())
    assert (content.kind_of({}), content.kind_of(b"")) == ("pt", "bin")


def test_what_another_rank_writes_is_left_alone(tmp_path):
    """A rank that resumes early removes nothing of a process that lives: it may be saving."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        alive = tmp_path / f".algo-1.latest.json.{other.pid}.tmp"
        gone = tmp_path / ".algo-1.latest.json.99999999.tmp"
        for path in (alive, gone):
            path.touch()
        shards._remove_left_over(str(tmp_path), (".algo-1.latest.",))
        left = (alive.exists(), gone.exists())
        other.kill()
        # A process that ended and that nobody has waited for writes nothing any more.
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        shards._remove_left_over(str(tmp_path), (".algo-1.latest.",))
        assert (left, alive.exists()) == ((True, False), False)
