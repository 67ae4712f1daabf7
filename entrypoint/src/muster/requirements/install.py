"""Installs what the job's code asks for, once a host. Effects: those of the modules it names; logs.

The order of things: what is asked for (request.py), what is there and would change (probe.py), an index with a token
(codeartifact.py), pip or uv (installer.py), what has changed, and whether torch can still be imported.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass

from muster import mask
from muster.code.entry import find_python
from muster.errors import CodeError, RequirementsError
from muster.log import say
from muster.model import Code
from muster.requirements import codeartifact, packages
from muster.requirements.building import MANAGED
from muster.requirements.ended import Ended
from muster.requirements.explain import explain
from muster.requirements.installer import Tool, commands, environment
from muster.requirements.packages import Found
from muster.requirements.programs import Programs
from muster.requirements.request import Request, look
from muster.requirements.surroundings import (
    alone_with,
    keep_output,
    private_folder,
    writable_project,
    written,
)
from muster.requirements.watch import Watch, tail
from muster.settings import Settings

_PROBE = os.path.join(os.path.dirname(__file__), "probe.py")
_IMPORTED = {"torch": "torch", "horovod": "horovod.torch"}
"""What must still be importable after an installation, by the package that has it."""
_SHOWN = 400
"""Characters of a program's last line."""
_NO_DRIVER = "libcuda.so.1"
"""Missing on a host without a GPU, whatever was installed."""


def install(
    code: Code, settings: Settings, env: Mapping[str, str], record: str, programs: Programs
) -> Code:
    """Installs what `code` asks for. Returns it with notes on what has changed by that.

    Args:
        code: the code on disk.
        settings: the run's.
        env: the job's environment: pip's and uv's own variables count.
        record: the folder for the installer's output, should it fail.
        programs: what this stage runs.

    Raises:
        RequirementsError: it can't be installed, would change what the image keeps, or has broken torch.
    """
    request = look(code, settings)
    if request is None:
        return code
    try:
        python = find_python(settings.python, env)
    except CodeError as error:
        raise RequirementsError(
            f"{request.label} can't be installed: {error.what}", error.remedy
        ) from error
    mask.learn_urls(
        [request.text, *(text for name, text in env.items() if name.startswith(("PIP_", "UV_")))],
        env,
    )
    with private_folder() as folder, alone_with(python):
        stage = _Stage(request, settings, env, python, folder, record, programs)
        return dataclasses.replace(code, notes=(*code.notes, *stage.run()))


def foresee(code: Code, settings: Settings, env: Mapping[str, str]) -> str:
    """What will be installed, in a line; empty for nothing. Nothing is fetched.

    Raises:
        RequirementsError: it would change what is kept, or a file isn't there.
    """
    request = look(code, settings)
    if request is None:
        return ""
    programs = Programs()
    try:
        with private_folder() as folder:
            python = find_python(settings.python, env)
            _Stage(request, settings, env, python, folder, "", programs).before()
    finally:
        programs.end()
    source = f"the folder {request.wheels}" if request.wheels else "the index"
    return f"{request.label} is installed before the ranks begin, from {source}"


@dataclass(frozen=True)
class _Stage:
    """One installation."""

    request: Request
    settings: Settings
    env: Mapping[str, str]
    python: str
    folder: str
    record: str
    programs: Programs

    def run(self) -> tuple[str, ...]:
        """The notes."""
        began = time.monotonic()
        before = self.before()
        if before.empty and not self.request.project:
            return ()
        tool = self._tool(before)
        self._install(tool, before)
        after = self._probe({}).installed
        changes = packages.changed(before.installed, after)
        added = packages.added(before.installed, after)
        seconds = time.monotonic() - began
        say(_summary(self.request, added, seconds))
        if added or changes:
            self._check_imports(before, changes or added)
        return self._notes(changes)

    def before(self) -> Found:
        """What is there, and that the requirements would leave what is kept. Raises RequirementsError."""
        found = self._probe({"file": self.request.file, "pins": self._pins()})
        mask.learn_urls([*found.config.values(), *found.lines], self.env)
        _refuse_conflicts(self.request, found, self._holder)
        return found

    def _pins(self) -> dict[str, str]:
        if self.settings.allow_torch_change:
            return {}
        try:
            with open(self.settings.constraints, encoding="utf-8") as file:
                return packages.pins(file.read())
        except OSError:
            # Not in an image of ours: what this Python holds is somebody's choice as well.
            installed = self._probe({}).installed
            return {name: text for name, text in installed.items() if packages.is_kept(name)}

    @property
    def _holder(self) -> tuple[str, str]:
        """Who has what is kept, and where that is told, for messages."""
        path = self.settings.constraints
        return ("the image", path) if os.path.exists(path) else ("this Python", self.python)

    def _notes(self, changes: tuple[str, ...]) -> tuple[str, ...]:
        notes = []
        if self.settings.allow_torch_change:
            notes.append(f"{self.request.label} may replace torch (MUSTER_ALLOW_TORCH_CHANGE=1)")
        if changes:
            notes.append(f"{self.request.label} changed {packages.short(changes)}")
        return tuple(notes)

    def _probe(self, asked: Mapping[str, object]) -> Found:
        answer, output = (os.path.join(self.folder, name) for name in ("answer.json", "probe"))
        words = (self.python, _PROBE, json.dumps({**asked, "answer": answer}))
        status = self._run(words, self.env, "/", output)
        try:
            with open(answer, encoding="utf-8") as file:
                found = packages.found_from(json.load(file))
            os.unlink(answer)
        except (OSError, ValueError):
            status = status or 1
        if status:
            what = f"{self.python} can't say what is installed in it"
            raise RequirementsError(what, tail(output).strip().rpartition("\n")[2][:_SHOWN])
        return found

    def _tool(self, found: Found) -> Tool:
        uv = shutil.which("uv", path=self.env.get("PATH")) or ""
        if self.settings.installer == "uv" and not uv:
            raise RequirementsError("MUSTER_INSTALLER=uv, and there is no uv on PATH")
        if self.settings.installer != "uv" and found.pip:
            uv = ""
        if not uv and not found.pip:
            what = (
                f"{self.request.label} can't be installed: {self.python} has no pip, and PATH no uv"
            )
            raise RequirementsError(
                what, "`python -m ensurepip` adds pip; MUSTER_PYTHON names another Python."
            )
        overridden = {"break-system-packages", "target", "prefix", "user"} & set(found.config)
        if found.managed and not overridden and not uv:
            raise RequirementsError(f"{self.python}: {MANAGED[0]}", MANAGED[1])
        return Tool(self.python, uv)

    def _install(self, tool: Tool, found: Found) -> None:
        index = ""
        if self.settings.ca_repository and not self.request.wheels:
            index = codeartifact.index_url(self.settings.ca_repository, mask.learn_value)
        env = environment(self.env, index, _writable(self.settings.warm_cache))
        constraints = ""
        if found.kept and not found.hashes:
            # With hashes pip wants each package's exact version; those were compared.
            constraints = written(self.folder, "constraints.txt", packages.constraints(found.kept))
        project = writable_project(self.request.project, self.folder)
        request = dataclasses.replace(self.request, project=project)
        for argv in commands(tool, request, found, constraints):
            self._run_installer(tool, argv, env, found)

    def _run_installer(
        self, tool: Tool, argv: tuple[str, ...], env: Mapping[str, str], found: Found
    ) -> None:
        output = os.path.join(self.folder, "output")
        limited = "--timeout" in argv and "--retries" in argv
        watch = Watch(output, limited=limited)
        status = self._run(argv, env, self.request.folder, output, watch)
        if status == 0:
            return
        text = mask.mask_text(tail(output))
        kept = keep_output(output, os.path.join(self.record, "requirements.log"))
        end = Ended(
            output=text,
            status=status,
            tool=tool.name,
            label=self.request.label,
            holder=self._holder if found.kept else ("", ""),
            wheels=self.request.wheels,
            empty_wheels=self.request.empty_wheels,
            python=found.python,
            gave_up=watch.gave_up,
            log=kept,
        )
        raise explain(end)

    def _check_imports(self, before: Found, changes: tuple[str, ...]) -> None:
        """Torch and horovod, where they were there before, can still be imported. Raises RequirementsError."""
        for package, module in _IMPORTED.items():
            if package not in before.installed:
                continue
            output = os.path.join(self.folder, f"import-{package}")
            if self._run((self.python, "-c", f"import {module}"), self.env, "/", output) == 0:
                continue
            text = tail(output).strip()
            if _NO_DRIVER in text:
                continue
            reason = text.rpartition("\n")[2] or "it has said nothing"
            what = f"after {self.request.label} was installed, {module} can't be imported: {reason}"
            raise RequirementsError(what, f"These have changed: {packages.short(changes)}.")

    def _run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        folder: str,
        output: str,
        watch: Watch | None = None,
    ) -> int:
        with open(output, "wb") as file:
            return self.programs.run(argv, env, folder, file.fileno(), watch)


def _refuse_conflicts(request: Request, found: Found, holder: tuple[str, str]) -> None:
    if not found.conflicts:
        return
    path, line, name = found.conflicts[0]
    has = found.installed.get(name) or found.kept[name].lstrip("=")
    asks = f"{request.label if path == request.file else path} asks for {line}"
    what = f"{asks}, and {holder[0]} has {name} {has} ({holder[1]})"
    more = len(found.conflicts) - 1
    what += f"; {more} more like it" if more else ""
    stays = f"{name} and what is built for it stay as they are"
    if found.kept[name].endswith(".*"):
        stays = f"{name}'s major version stays as it is: compiled code depends on it"
    remedy = f"{stays}. Take the line out, take an image with that version, or set MUSTER_ALLOW_TORCH_CHANGE=1."
    raise RequirementsError(what, remedy)


def _summary(request: Request, added: tuple[str, ...], seconds: float) -> str:
    what = f"{len(added)} package{'' if len(added) == 1 else 's'} in {seconds:.1f} s"
    if not added:
        what = f"nothing new from {request.label}, {seconds:.1f} s"
    return f"requirements: {what}" + (f" ({packages.short(added)})" if added else "")


def _writable(folder: str | None) -> str:
    return folder if folder and os.path.isdir(folder) and os.access(folder, os.W_OK) else ""
