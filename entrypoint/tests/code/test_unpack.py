"""Archives of all sorts: unpacked whole and inside their folder, or refused with nothing left."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from muster.code.unpack import unpack
from muster.errors import CodeError


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> str:
    with tarfile.open(path, mode) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=0o700)


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "into").mkdir()
    return str(tmp_path / "into" / "code")


def leftovers(target: str) -> list[str]:
    return os.listdir(os.path.dirname(target))


@pytest.mark.parametrize("mode", ["w:gz", "w"])
@pytest.mark.parametrize("name", ["sourcedir.tar.gz", "code.bin"])
def test_gzip_or_none_by_content(mode: str, name: str, tmp_path: Path, target: str):
    """What is in the file decides, not its name; modes stay, but nothing is set-uid or open to all."""
    archive = pack(
        tmp_path / name,
        member("./train.py", b"print(1)\n", mode=0o644),
        member("bin/run.sh", b"#!/bin/sh\n", mode=0o6777, uid=0, uname="root"),
        member("locked", b"", mode=0o000),
        link("latest", "bin/run.sh"),
        link("bin/up", "../train.py"),
        link("again", "train.py", tarfile.LNKTYPE),
        mode=mode,
    )
    assert unpack(archive, target) == (target,)
    root = Path(target)
    assert (root / "train.py").read_text() == (root / "again").read_text() == "print(1)\n"
    assert (root / "latest").read_text() == "#!/bin/sh\n"
    assert (root / "bin/up").read_text() == "print(1)\n"
    modes = {name: stat.S_IMODE(os.stat(root / name).st_mode) for name in ("bin/run.sh", "locked")}
    assert modes == {"bin/run.sh": 0o755, "locked": 0o600}
    assert leftovers(target) == ["code"]


def test_one_top_folder_is_entered(tmp_path: Path, target: str):
    """An archive of a folder is as good as one of what is in it."""
    archive = pack(tmp_path / "a", folder("project-1.0"), member("project-1.0/train.py", b"x"))
    assert unpack(archive, target) == (target, os.path.join(target, "project-1.0"))
    archive = pack(tmp_path / "b", folder("pkg"), member("pkg/a.py"), member("train.py"))
    assert unpack(archive, target + "2") == (target + "2",)


def test_a_later_member_takes_the_earlier_ones_place(tmp_path: Path, target: str):
    """As with `tar --append`; a file in a link's place is a file, and what the link led to stays."""
    archive = pack(
        tmp_path / "a", member("x", b"1"), member("x", b"2"), link("y", "x"), member("y", b"3")
    )
    root = Path(unpack(archive, target)[0])
    assert [(root / name).read_text() for name in "xy"] == ["2", "3"]
    assert not (root / "y").is_symlink()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../evil"), "its name leads outside"),
        (member("a/../../evil"), "its name leads outside"),
        (member("/etc/evil"), "its name leads outside"),
        (link("etc", "/etc"), "it links to /etc, outside"),
        (link("up", ".."), "it links to .., outside"),
        (link("a/up", "../.."), "it links to ../.., outside"),
        (link("a/up", "b/../../.."), "outside of the folder"),
        (link("hard", "/etc/passwd", tarfile.LNKTYPE), "no file of the archive"),
        (link("hard", "../x", tarfile.LNKTYPE), "no file of the archive"),
        (link("hard", "inside", tarfile.LNKTYPE), "no file of the archive"),
        (member("inside/evil"), "inside is no folder"),
        (folder("inside"), "inside is no folder"),
        (link("folder", "x"), "a folder of that name came before"),
        (member("pipe", type=tarfile.FIFOTYPE), "it is a FIFO"),
        (member("null", type=tarfile.CHRTYPE), "it is a character device"),
        (member("sda", type=tarfile.BLKTYPE), "it is a block device"),
    ],
)
def test_what_reaches_outside_is_refused(bad, why: str, tmp_path: Path, target: str):
    """By the member's name, and nothing of the archive stays."""
    good = (member("train.py", b"x"), link("inside", "."), folder("folder"))
    with pytest.raises(CodeError) as error:
        unpack(pack(tmp_path / "a.tar.gz", *good, bad), target)
    assert f"member {bad[0].name!r}" in error.value.what
    assert why in error.value.what
    assert leftovers(target) == []


def test_a_link_through_a_link_stays_inside(tmp_path: Path, target: str):
    """`a` is the root itself: below it a link up would lead out, though its name looks deep enough."""
    for bad in (link("a/up", ".."), link("up", "a/..")):
        with pytest.raises(CodeError):
            unpack(pack(tmp_path / "a.tar.gz", link("a", "."), bad), target)
        assert leftovers(target) == []


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.99])
@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_an_archive_that_is_cut_off(share: float, mode: str, tmp_path: Path, target: str):
    """Named, with its size; nothing half done stays."""
    path = tmp_path / "a.tar.gz"
    data = os.urandom(300_000)
    pack(path, member("train.py", data), member("more.bin", data), mode=mode)
    whole = path.read_bytes()
    end = len(data) * 2 if mode == "w" else len(whole)
    path.write_bytes(whole[: int(end * share)])
    if share == 0.0:
        path.write_bytes(whole[:100])
    with pytest.raises(CodeError, match="is broken or cut off"):
        unpack(str(path), target)
    assert leftovers(target) == []


def test_a_plain_tar_that_ends_between_members(tmp_path: Path, target: str):
    """Tarfile takes each of them for whole: what shows is the missing end mark."""
    path = tmp_path / "a.tar"
    pack(path, member("a.py", b"1"), member("b.py", b"2"), member("c.py", b"3"), mode="w")
    whole = path.read_bytes()
    for size in range(512, 3072 + 1, 256):
        path.write_bytes(whole[:size])
        with pytest.raises(CodeError, match="is broken or cut off"):
            unpack(str(path), target)
        assert leftovers(target) == []
    path.write_bytes(whole[: 3072 + 512])
    assert unpack(str(path), target) == (target,)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04....", "is a zip file"),
        (b"BZh9......", "is bzip2"),
        (b"\xfd7zXZ\x00..", "is xz"),
        (b"<html>not found</html>" * 100, "is broken or cut off"),
        (gzip.compress(b"no tar at all" * 100, mtime=0), "is broken or cut off"),
    ],
)
def test_what_is_no_tar(content: bytes, what: str, tmp_path: Path, target: str):
    """Said with what it is, and how to pack it."""
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(CodeError, match=what) as error:
        unpack(str(tmp_path / "a.tar.gz"), target)
    assert "tar -czf" in error.value.remedy


def test_a_full_disk(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch):
    """Says so, and leaves nothing that would fill it further."""

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    archive = pack(tmp_path / "a.tar.gz", member("x", b"1"))
    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(CodeError, match="No space left on device") as error:
        unpack(archive, target)
    assert "volume_size" in error.value.remedy
    assert leftovers(target) == []


def test_a_place_that_is_not_there(tmp_path: Path):
    """No parent to unpack into: told as the archive's trouble, not as ours."""
    archive = pack(tmp_path / "a.tar.gz", member("x", b"1"))
    with pytest.raises(CodeError, match=r"can't be unpacked to .*: No such file"):
        unpack(archive, str(tmp_path / "none" / "code"))
    with pytest.raises(CodeError, match=r"can't be unpacked to .*: No such file"):
        unpack(str(tmp_path / "none.tar.gz"), str(tmp_path / "code"))


MANY = settings(max_examples=2000)
"""For what others send, in every run."""
NAMES = st.lists(
    st.sampled_from(["a", "b", "..", ".", "", "c d", "\x01", "ü", "x" * 120]), max_size=4
).map("/".join)
SANE = st.lists(st.sampled_from(["a", "b", "c d", "ü"]), min_size=1, max_size=3).map("/".join)
PATHS = SANE | SANE | SANE | st.tuples(st.sampled_from(["", "/"]), NAMES).map("".join)
GOOD = [tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]
BAD = [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"]
KINDS = st.integers(0, 19).flatmap(lambda roll: st.sampled_from(BAD if roll == 7 else GOOD))
MEMBERS = st.lists(st.tuples(KINDS, PATHS, PATHS, st.sampled_from([0o644, 0o7777, 0])), max_size=6)


def unpack_in_a_folder(archive: bytes) -> None:
    """Fails where anything but a CodeError comes of it, or anything is outside."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "into").mkdir()
        (base / "a.tar.gz").write_bytes(archive)
        target = str(base / "into" / "code")
        try:
            unpack(str(base / "a.tar.gz"), target)
        except CodeError:
            assert leftovers(target) == []
            event("refused")
        else:
            assert leftovers(target) == ["code"]
            for path in Path(target).rglob("*"):
                if not path.is_symlink() or path.exists():
                    assert path.resolve().is_relative_to(base.resolve() / "into" / "code"), path
                assert path.is_symlink() or not path.stat().st_mode & 0o7022
            event("unpacked")
        assert sorted(os.listdir(base)) == ["a.tar.gz", "into"]


def packed(members: list[tuple[bytes, str, str, int]], mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for kind, name, to, bits in members:
            data = b"x" if kind == tarfile.REGTYPE else b""
            info, _ = member(name, data, type=kind, linkname=to, mode=bits)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


@MANY
@given(MEMBERS, st.sampled_from(["w:gz", "w"]))
def test_nothing_gets_outside(members, mode: str):
    """Whatever the archive holds: it is refused, or every path of it resolves inside, and none is
    set-uid or writable for others."""
    unpack_in_a_folder(packed(members, mode))


@MANY
@given(
    MEMBERS,
    st.sampled_from(["w:gz", "w"]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=4),
    st.floats(0, 1),
)
@example([(tarfile.REGTYPE, "a", "", 0o644)], "w", [], 1.0)
def test_a_damaged_archive(members, mode: str, damage: list[tuple[float, bytes]], end: float):
    """Bytes changed anywhere and an end that is missing: unpacked or refused, never a crash."""
    archive = bytearray(packed(members, mode))
    for place, changed in damage:
        at = int(place * len(archive))
        archive[at : at + len(changed)] = changed
    unpack_in_a_folder(bytes(archive[: int(end * len(archive))]))
