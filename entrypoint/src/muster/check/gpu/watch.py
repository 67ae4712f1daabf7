"""Waits for XID errors while the ranks run: `python -I -m muster.check.gpu.watch`, and the harness's end of it.

NVML keeps no history: it tells of what comes after the registration. The waiting is a process of its own, as a wedged
driver may hold who asks it for ever; it ends by itself when its parent has gone.

Effects: starts that process, reads what it prints, kills it. In the process: NVML; prints a JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.check.gpu.xid import EVENTS, UNAVAILABLE, Event

if TYPE_CHECKING:
    import subprocess

    from muster.check.gpu.facts import Gpu

WATCH = (sys.executable, "-I", "-m", "muster.check.gpu.watch")
_WAIT_MS = 500
"""How long one call waits: so long a watcher whose parent has gone may stay."""
_ENOUGH = 64 * 1024


class Watch:
    """The harness's end. `fileno` can be waited for in a selector; nothing here blocks."""

    def __init__(self, env: Mapping[str, str], command: Sequence[str] = WATCH) -> None:
        """Starts the watcher with these variables. Raises OSError."""
        import subprocess  # noqa: PLC0415  (10 ms, where there is a GPU)

        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._rest = b""
        self.registered: tuple[int, ...] = ()
        """The GPUs that are watched, once the watcher has said so."""
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def fileno(self) -> int:
        """Readable when there is something to `take`, or the watcher has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """The watcher, by its pid: who reaps this process's children must leave it alone."""
        return {self._process.pid: self._process}

    def take(self) -> tuple[Event, ...] | None:
        """What has come since the last time; None once the watcher has ended."""
        try:
            read = os.read(self.fileno(), _ENOUGH)
        except BlockingIOError:
            return ()
        if not read:
            return None
        *lines, self._rest = (self._rest + read).split(b"\n")
        return tuple(event for line in lines if (event := self._event(line)))

    def _event(self, line: bytes) -> Event | None:
        try:
            told = json.loads(line)
            if "registered" in told:
                self.registered = tuple(told["registered"])
                return None
            return Event(**told)
        except (ValueError, TypeError):
            return None

    def stop(self) -> None:
        """Ends the watcher. Takes a second at most, also when the kernel holds it."""
        from muster.check.process import end_group  # noqa: PLC0415  (as above)

        if self._process.poll() is None:
            end_group(self._process)
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> int:
    """0 when the parent has gone, 1 when nothing can be watched, 3 without nvidia-ml-py."""
    try:
        import pynvml as nvml  # noqa: PLC0415  (in the images' harness; nowhere else)
    except ModuleNotFoundError:
        return 3
    parent = os.getppid()
    try:
        nvml.nvmlInit()
        wait(nvml, _print, lambda: os.getppid() == parent, os.environ)
    except nvml.NVMLError:
        return 1
    return 0


def _print(told: dict[str, Any]) -> None:
    os.write(1, (json.dumps(told) + "\n").encode())


def wait(
    nvml: Any,
    tell: Callable[[dict[str, Any]], None],
    go_on: Callable[[], bool],
    env: Mapping[str, str],
) -> None:
    """Registers for what every GPU that the job uses can tell, and tells it.

    Args:
        nvml: the module pynvml.
        tell: takes {"registered": [GPU, …]} once, and each event's fields.
        go_on: is asked twice a second.
        env: of the job's programs: what others do on this host's other GPUs is none of the job's.

    Raises:
        NVMLError: the driver can't wait for events.
    """
    events = nvml.nvmlEventSetCreate()
    try:
        uuids = {i: _register(nvml, i, events) for i in _used(nvml, env)}
        watched = {index: uuid for index, uuid in uuids.items() if uuid is not None}
        tell({"registered": [*watched]})
        while watched and go_on():
            try:
                data = nvml.nvmlEventSetWait(events, _WAIT_MS)
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError_GpuIsLost:
                # Which one isn't told, and every further call would say the same.
                tell(_event(-1, "", UNAVAILABLE, 0))
                return
            tell(_told(nvml, data, watched))
    finally:
        nvml.nvmlEventSetFree(events)


def _used(nvml: Any, env: Mapping[str, str]) -> list[int]:
    count = int(nvml.nvmlDeviceGetCount())
    if env.get("CUDA_VISIBLE_DEVICES") is None:
        return [*range(count)]
    from muster.check.gpu.visible import visible  # noqa: PLC0415  (where some are hidden)

    gpus = [_gpu(nvml, index) for index in range(count)]
    return [gpu.index for gpu in visible(gpus, env).gpus]


def _gpu(nvml: Any, index: int) -> Gpu:
    """One GPU with its names; one that is lost has none."""
    from muster.check.gpu.facts import Gpu  # noqa: PLC0415  (as above)

    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        gpu = Gpu(
            index,
            name=_text(nvml.nvmlDeviceGetName(handle)),
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        )
    except nvml.NVMLError:
        return Gpu(index)
    try:
        return replace(gpu, mig=int(nvml.nvmlDeviceGetMigMode(handle)[0]))
    except nvml.NVMLError:  # GPUs older than the A100 can't be divided
        return gpu


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _register(nvml: Any, index: int, events: Any) -> str | None:
    """The UUID of a GPU that tells of anything; None for another, as for one that is lost."""
    try:
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        wanted = nvml.nvmlDeviceGetSupportedEventTypes(gpu) & EVENTS
        if not wanted:
            return None
        nvml.nvmlDeviceRegisterEvents(gpu, wanted, events)
    except nvml.NVMLError:
        return None
    try:
        return _text(nvml.nvmlDeviceGetUUID(gpu))
    except nvml.NVMLError:
        return ""


def _told(nvml: Any, data: Any, watched: Mapping[int, str]) -> dict[str, Any]:
    index = -1
    with contextlib.suppress(
        nvml.NVMLError
    ):  # It has just been lost: the event is known all the same.
        index = int(nvml.nvmlDeviceGetIndex(data.device))
    # Of a GPU that is lost nobody could be asked for it any more.
    return _event(index, watched.get(index, ""), int(data.eventType), int(data.eventData))


def _event(index: int, uuid: str, kind: int, number: int) -> dict[str, Any]:
    return {"index": index, "uuid": uuid, "type": kind, "number": number, "time": time.time()}


if __name__ == "__main__":
    sys.exit(main())
