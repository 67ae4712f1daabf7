"""A source archive, unpacked whole or not at all. Effects: files in one new folder.

Archives come from users, and the harness may be root: no member gets outside of the folder, and none is
more than a file, a folder or a link between them. tarfile's own `data` filter has the same aim; Debian 12's
Python 3.11.2 lacks it, and where it follows links on disk the rules here need no look at the disk.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from muster.errors import CodeError

_BLOCK = 1024 * 1024
_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\x03\x04": "a zip file",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_PACK = "Pack it as `tar -czf sourcedir.tar.gz -C FOLDER .` does, which is what the SDK sends."
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OverflowError)
_KINDS = {
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a FIFO",
}


def unpack(archive: str, target: str) -> tuple[str, ...]:
    """Makes the folder `target` of what the archive holds; returns the folders in which the code may begin.

    That is `target` itself, then the one folder that holds everything else, where there is such a one.

    Args:
        archive: the path of a tar file, packed with gzip or not at all; its name does not matter.
        target: a path that does not exist, or an empty folder. Its parent has room and is writable.

    Raises:
        CodeError: the archive is broken, cut off, of another kind, or has a member that would reach outside;
            the disk is full. Nothing is left of it then.
    """
    partial = ""
    try:
        partial = tempfile.mkdtemp(prefix=partial_prefix(), dir=os.path.dirname(target))
        with _opened(archive) as members:
            _Tree(archive, partial).fill(members)
        os.chmod(partial, 0o755)  # noqa: S103  (ranks may run as another user)
        os.rename(partial, target)
    except OSError as error:
        raise _not_written(archive, target, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return (target, *_top(target))


def partial_prefix() -> str:
    """How the names of this process's half unpacked folders begin."""
    return f".muster-unpack-{os.getpid()}-"


@contextlib.contextmanager
def _opened(archive: str) -> Iterator[tarfile.TarFile]:
    """The archive's members, whatever its name says. Raises CodeError."""
    with open(archive, "rb") as file:
        head = file.read(6)
        for magic, kind in _OTHERS.items():
            if head.startswith(magic):
                raise CodeError(f"the source archive {archive} is {kind}, not a tar file", _PACK)
        file.seek(0)
        packed: IO[bytes] = gzip.GzipFile(fileobj=file) if head.startswith(_GZIP) else file  # type: ignore[assignment]
        try:
            with tarfile.open(fileobj=packed, mode="r|", bufsize=_BLOCK) as members:
                yield members
                _refuse_open_end(members)
        except _BROKEN as error:
            size = os.fstat(file.fileno()).st_size
            what = f"the source archive {archive} ({size} bytes) is broken or cut off: {error}"
            raise CodeError(what, _PACK) from error


def _refuse_open_end(members: tarfile.TarFile) -> None:
    """Refuses an archive that ends without its end mark, a block of zeros: tarfile takes it for whole."""
    read: int = members.fileobj.tell() - members.offset
    if read != tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it has no end mark")


@dataclass
class _Tree:
    """What has been unpacked so far."""

    archive: str
    root: str
    kinds: dict[str, bytes] = field(default_factory=dict)
    """Of each name below the root: a folder, a file or a link, by tarfile's letters."""

    def fill(self, members: tarfile.TarFile) -> None:
        """Unpacks all members. Raises CodeError, OSError and what a broken archive raises."""
        for member in members:
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            if member.name.startswith("/") or ".." in parts or "\0" in member.name:
                raise self._refused(member, "its name leads outside of the folder")
            if not parts:
                continue  # `.` itself
            self._make_folders(member, parts[:-1])
            name = "/".join(parts)
            if member.isdir():
                self._make_folders(member, parts)
            elif member.isreg():
                self._write(members, member, name)
            elif member.issym():
                self._link(member, name, depth=len(parts) - 1)
            elif member.islnk():
                self._link_again(member, name)
            else:
                kind = _KINDS.get(member.type, "of an unknown kind")
                raise self._refused(member, f"it is {kind}")

    def _make_folders(self, member: tarfile.TarInfo, parts: list[str]) -> None:
        """A folder below another one, never below a link: links can't lead a member elsewhere."""
        for count in range(1, len(parts) + 1):
            name = "/".join(parts[:count])
            kind = self.kinds.setdefault(name, tarfile.DIRTYPE)
            if kind != tarfile.DIRTYPE:
                raise self._refused(member, f"{name} is no folder")
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path(name), 0o755)

    def _write(self, members: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        self._replace(member, name)
        source = members.extractfile(member)
        # Never set-uid, never writable for others; for its owner always readable and writable.
        mode = stat.S_IMODE(member.mode) & 0o755 | 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        left = member.size
        with open(os.open(self._path(name), flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
            while source and left:
                block = source.read(min(left, _BLOCK))
                if not block:
                    raise tarfile.ReadError(f"{member.name} ends early")
                file.write(block)
                left -= len(block)
        with contextlib.suppress(OverflowError, ValueError):
            os.utime(self._path(name), (member.mtime, member.mtime))

    def _link(self, member: tarfile.TarInfo, name: str, depth: int) -> None:
        """A link whose target is inside: upwards first, at most as far as the root, then only down."""
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
        if member.linkname.startswith("/") or ".." in parts[ups:] or ups > depth:
            raise self._refused(member, f"it links to {member.linkname}, outside of the folder")
        self._replace(member, name)
        os.symlink(member.linkname, self._path(name))

    def _link_again(self, member: tarfile.TarInfo, name: str) -> None:
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        target = "/".join(parts)
        if member.linkname.startswith("/") or self.kinds.get(target) != tarfile.REGTYPE:
            raise self._refused(member, f"it links to {member.linkname}, no file of the archive")
        if target != name:
            self._replace(member, name)
            self.kinds[name] = tarfile.REGTYPE
            os.link(self._path(target), self._path(name), follow_symlinks=False)

    def _replace(self, member: tarfile.TarInfo, name: str) -> None:
        """Takes the place of an earlier file of the same name, as `tar --append` has them."""
        if self.kinds.get(name) == tarfile.DIRTYPE:
            raise self._refused(member, "a folder of that name came before it")
        if name in self.kinds:
            os.unlink(self._path(name))
        self.kinds[name] = tarfile.SYMTYPE if member.issym() else tarfile.REGTYPE

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _refused(self, member: tarfile.TarInfo, why: str) -> CodeError:
        return CodeError(f"the source archive {self.archive}: member {member.name!r}: {why}", _PACK)


def _top(folder: str) -> tuple[str, ...]:
    """The one folder in it, where there is nothing else."""
    names = os.listdir(folder)
    inner = os.path.join(folder, names[0]) if len(names) == 1 else ""
    return (inner,) if inner and os.path.isdir(inner) and not os.path.islink(inner) else ()


def _not_written(archive: str, target: str, error: OSError) -> CodeError:
    what = f"the source archive {archive} can't be unpacked to {target}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CodeError(what, "The disk is full: a larger volume (volume_size), or less code.")
    return CodeError(what)
