"""The user's code as a folder, and the command that starts its entry point. Effects: files, network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from muster.code import s3
from muster.code.entry import Entry, find_entry, find_installed, find_python
from muster.code.near import near_names
from muster.code.piped import refuse_piped
from muster.code.scratch import Scratch
from muster.code.sources import CHANNEL, Source, find_sources
from muster.code.unpack import unpack
from muster.errors import CodeError, ContractError
from muster.model import Code, Job
from muster.settings import Settings

_LISTED = 20
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_SENT_BY_SDK = "sourcedir.tar.gz"
_WAYS = (
    "Name it in one of three ways: the hyperparameter sagemaker_program (an Estimator's "
    "entry_point sends it), the variable SAGEMAKER_PROGRAM, or `muster train SCRIPT`."
)


def locate(job: Job, settings: Settings, env: Mapping[str, str], scratch: Scratch) -> Code:
    """The code directory and the entry point's command.

    The first place of `find_sources` that holds the entry point; a submit directory that doesn't is an error.
    An archive is unpacked into a fresh folder, so that nothing of another version is in it.

    Raises:
        ContractError: the job names no entry point.
        CodeError: the entry point or the submit directory does not exist, or can't be fetched, unpacked or
            started, or the code would come through a FIFO.
    """
    if not job.program:
        raise ContractError("the job names no entry point", _WAYS)
    refuse_piped(job)

    def python() -> str:
        return find_python(settings.python, env)

    sources = find_sources(job, settings)
    folders: list[str] = []
    for source in sources:
        for folder in _folders_of(source, job, scratch):
            folders.append(folder)
            if entry := find_entry(folder, job.program, python):
                notes = (
                    *_about(source, folder),
                    *_unused(source, sources, folder, job.program),
                    *_passed_over(folder, job.program, settings),
                )
                return _code(folder, job, entry, notes)
        if source.required:
            break
    elsewhere = find_installed(job.program, python, env)
    if elsewhere and not any(source.required for source in sources):
        found = elsewhere.command[0]
        notes = () if "-m" in elsewhere.command else (f"code: {job.program} is {found}, on PATH",)
        return _code(folders[0] if folders else os.getcwd(), job, elsewhere, notes)
    raise _missing(job, folders)


def _code(folder: str, job: Job, entry: Entry, notes: tuple[str, ...]) -> Code:
    return Code(folder, str(job.program), entry.command, entry.is_python, notes)


def _folders_of(source: Source, job: Job, scratch: Scratch) -> Iterator[str]:
    """The folders in which the source's code may begin; then those of an archive in it.

    The SDK's archive, or the only one of the channel `code`, whose data it then is. It is unpacked only if the
    entry point isn't beside it.
    """
    folders = _as_folders(source, job, scratch)
    yield from folders
    names = [name for name in _names(folders[0]) if name.endswith(_ARCHIVES)]
    only = names if source.said_by == CHANNEL and len(names) == 1 else []
    for name in only or [name for name in names if name == _SENT_BY_SDK]:
        yield from unpack(os.path.join(folders[0], name), scratch.folder())


def _as_folders(source: Source, job: Job, scratch: Scratch) -> tuple[str, ...]:
    scheme, is_url, rest = source.address.partition("://")
    if is_url and scheme.lower() == "s3":
        archive = os.path.join(scratch.temporary(), _SENT_BY_SDK)
        s3.fetch(s3.parse(source.address), job.region, archive)
        folders = unpack(archive, scratch.folder())
        os.unlink(archive)
        return folders
    if is_url and scheme != "file":
        what = f"code from {scheme}:// is not supported: {source}"
        raise CodeError(what, "It can be an archive on S3, the channel `code`, or in the image.")
    # SDK v2 writes file:///path. In a plain path nothing is an escape.
    path = "/" + unquote(rest).partition("/")[2] if is_url else source.address
    if os.path.isdir(path):
        return (path,)
    if os.path.isfile(path):
        return unpack(path, scratch.folder())
    raise CodeError(f"the submit directory {path} ({source.said_by}) does not exist")


def _about(source: Source, folder: str) -> tuple[str, ...]:
    return () if _is_same(folder, source.address) else (f"code: {source} is in {folder}",)


def _unused(used: Source, sources: list[Source], folder: str, program: str) -> Iterator[str]:
    """Other places that hold code: somebody will wonder which one runs."""
    for other in sources:
        if other is used or _is_same(other.address, folder):
            continue
        if os.path.isfile(os.path.join(other.address, program)):
            yield f"code: {used} wins over {other}, which has {program} too"
        elif used.required and os.path.isdir(other.address) and _names(other.address):
            yield f"code: {used} is used; {other} holds {_listing(other.address)}, which is not"


def _passed_over(folder: str, program: str, settings: Settings) -> tuple[str, ...]:
    """A requirements file beside a script that lies deeper: one folder counts, the code's."""
    beside = os.path.join(os.path.dirname(program), "requirements.txt")
    deeper = os.path.normpath(beside) != "requirements.txt"
    if settings.requirements or not deeper or not os.path.isfile(os.path.join(folder, beside)):
        return ()
    return (f"{beside} is not installed, as the code is {folder}: MUSTER_REQUIREMENTS={beside}",)


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other.removeprefix("file://"))


def _missing(job: Job, folders: list[str]) -> CodeError:
    what = f"the entry point {job.program} ({job.program_source}) does not exist"
    if any(os.path.isdir(os.path.join(folder, job.program or "")) for folder in folders):
        what = (
            f"the entry point {job.program} ({job.program_source}) is a folder without __main__.py"
        )
    if not folders:
        searched = f"{job.paths.data}/code, {job.paths.code}"
        return CodeError(
            what, f"There is no code at all: no folder {searched}, no MUSTER_CODE_DIR."
        )
    # What lies in / is of no use to anybody: it is a container's current folder.
    shown = [folder for folder in folders if folder != "/"] or folders
    program = job.program or ""
    return CodeError(
        what,
        "\n".join(
            f"{folder} holds: {_listing(folder)}{near_names(os.path.join(folder, program))}"
            for folder in shown
        ),
    )


def _names(folder: str) -> list[str]:
    """What is in it; nothing where this user can't look."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _listing(folder: str) -> str:
    names = _names(folder)
    if not names:
        return "nothing" if os.access(folder, os.R_OK) else "what this user can't list"
    shown = ", ".join(names[:_LISTED])
    rest = len(names) - _LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown
