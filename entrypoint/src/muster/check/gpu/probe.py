"""Asks NVML about every GPU: `python -I -m muster.check.gpu.probe [FACT…]`, a process of its own, as a wedged driver answers no call.

Effects: NVML; prints a JSON object a line. {"asking": [GPU or null, fact]} comes before each question, so that what was
asked of a driver that never answered is known; {"host": facts}, {"gpu": n, "facts": facts} and last {"done": true}. A fact
is a value, or {"error": name}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

_MAX_LINKS = 36
_RECOVERY_FIELD = 230
_PAGE_CAUSES = (0, 1)
_REPLAY, _RECOVERY, _CRC_FLIT = 0, 1, 2

Tell = Callable[[dict[str, Any]], None]


def main() -> int:
    """0 when all was asked. 3: no nvidia-ml-py in this Python."""
    try:
        import pynvml as nvml  # noqa: PLC0415  (in the images' harness; nowhere else)
    except ModuleNotFoundError:
        return 3
    look(nvml, _print, sys.argv[1:])
    return 0


def _print(told: dict[str, Any]) -> None:
    # What was told before a call that never returns must be out.
    os.write(1, (json.dumps(told) + "\n").encode())


def look(nvml: Any, tell: Tell, only: Sequence[str] = ()) -> None:
    """Asks everything, and tells what is known so far.

    Args:
        nvml: the module pynvml.
        tell: takes one JSON object.
        only: the facts of a GPU that are wanted; all where none is named.
    """
    asked = _Asked(nvml, tell, None)
    ready = asked.of("init", lambda: [nvml.nvmlInit(), 1][1])
    facts = {"init": ready}
    if ready == 1:
        facts["driver"] = asked.of("driver", lambda: _text(nvml.nvmlSystemGetDriverVersion()))
        facts["cuda"] = asked.of("cuda", nvml.nvmlSystemGetCudaDriverVersion)
        facts["count"] = asked.of("count", nvml.nvmlDeviceGetCount)
    tell({"host": facts})
    count = facts.get("count")
    for index in range(count if isinstance(count, int) else 0):
        tell({"gpu": index, "facts": _gpu(nvml, tell, index, only)})
    tell({"done": True})


class _Asked:
    """Questions about one GPU, or about the host."""

    def __init__(self, nvml: Any, tell: Tell, index: int | None) -> None:
        self._nvml = nvml
        self._tell = tell
        self._index = index

    def of(self, name: str, ask: Callable[[], Any]) -> Any:
        """The answer, or the error's name."""
        self._tell({"asking": [self._index, name]})
        try:
            return ask()
        except self._nvml.NVMLError as error:
            name = type(error).__name__.partition("_")[2]
            return {"error": name or f"code {error.value}"}
        # Another version of nvidia-ml-py, or bytes that are no text.
        except (AttributeError, ValueError, TypeError) as error:
            return {"error": type(error).__name__}


def _gpu(nvml: Any, tell: Tell, index: int, only: Sequence[str]) -> dict[str, Any]:
    handles: list[Any] = []
    asked = _Asked(nvml, tell, index)

    def take_handle() -> int:
        handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
        return 1

    facts = {"handle": asked.of("handle", take_handle)}
    if handles:
        for name, ask in _QUESTIONS.items():
            if only and name not in only:
                continue
            # Each is asked at once: nothing is kept of the loop's variables.
            facts[name] = asked.of(name, lambda ask=ask: ask(nvml, handles[0]))  # type: ignore[misc]
    return facts


def _text(value: Any) -> str:
    """Some versions of nvidia-ml-py return bytes, others text; neither is sure to be ASCII."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _errors(nvml: Any, gpu: Any, *, uncorrected: bool) -> int:
    return int(nvml.nvmlDeviceGetTotalEccErrors(gpu, int(uncorrected), 0))


def _spare(nvml: Any, gpu: Any) -> list[int]:
    found = nvml.nvmlDeviceGetRowRemapperHistogram(gpu)
    return [int(getattr(found, name)) for name in ("max", "high", "partial", "low", "none")]


def _retired(nvml: Any, gpu: Any) -> int:
    return sum(len(nvml.nvmlDeviceGetRetiredPages(gpu, cause)) for cause in _PAGE_CAUSES)


def _recovery(nvml: Any, gpu: Any) -> int:
    (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [_RECOVERY_FIELD])
    # A field that isn't supported has the value 0, which would read as healthy.
    if field.nvmlReturn:
        raise nvml.NVMLError(field.nvmlReturn)
    return int(field.value.uiVal)


def _slowdown(nvml: Any, gpu: Any) -> int:
    return int(
        nvml.nvmlDeviceGetTemperatureThreshold(gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    )


def _temperature(nvml: Any, gpu: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU))
    except (nvml.NVMLError_FunctionNotFound, AttributeError):  # drivers before 570
        return int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))


def _clocks(nvml: Any, gpu: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except (nvml.NVMLError_FunctionNotFound, AttributeError):  # its older name
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


def _links(nvml: Any, gpu: Any) -> list[int]:
    """The state of each link that the GPU has: the numbers of others are invalid, or not supported."""
    states = [int(nvml.nvmlDeviceGetNvLinkState(gpu, 0))]
    for link in range(1, _MAX_LINKS):
        try:
            states.append(int(nvml.nvmlDeviceGetNvLinkState(gpu, link)))
        except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotSupported):
            break
    return states


def _link_errors(nvml: Any, gpu: Any) -> list[int]:
    totals = [0, 0, 0]
    for link in range(len(_links(nvml, gpu))):
        for place, counter in enumerate((_REPLAY, _RECOVERY, _CRC_FLIT)):
            totals[place] += int(nvml.nvmlDeviceGetNvLinkErrorCounter(gpu, link, counter))
    return totals


def _fabric(nvml: Any, gpu: Any) -> list[int]:
    from ctypes import byref  # noqa: PLC0415  (pynvml has imported it)

    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, byref(info))
    # One byte in nvml.h, four in nvidia-ml-py.
    return [int(info.state) & 0xFF, int(info.status), int(info.healthMask)]


def _pcie(nvml: Any, gpu: Any) -> list[int]:
    return [
        int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        int(nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        int(nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
    ]


def _memory(nvml: Any, gpu: Any) -> list[int]:
    """The first version counts what the driver keeps for itself, some hundred MiB, as used."""
    found = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    return [int(found.used), int(found.total)]


def _processes(nvml: Any, gpu: Any) -> list[list[int]]:
    found = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    return [[int(one.pid), int(one.usedGpuMemory or 0)] for one in found]


_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, gpu: _text(nvml.nvmlDeviceGetName(gpu)),
    "uuid": lambda nvml, gpu: _text(nvml.nvmlDeviceGetUUID(gpu)),
    "bus": lambda nvml, gpu: _text(nvml.nvmlDeviceGetPciInfo(gpu).busId),
    "capability": lambda nvml, gpu: list(nvml.nvmlDeviceGetCudaComputeCapability(gpu)),
    "ecc_mode": lambda nvml, gpu: int(nvml.nvmlDeviceGetEccMode(gpu)[0]),
    "uncorrected": lambda nvml, gpu: _errors(nvml, gpu, uncorrected=True),
    "corrected": lambda nvml, gpu: _errors(nvml, gpu, uncorrected=False),
    "remapped": lambda nvml, gpu: list(nvml.nvmlDeviceGetRemappedRows(gpu)),
    "spare": _spare,
    "retired": _retired,
    "retiring": lambda nvml, gpu: int(nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu)),
    "recovery": _recovery,
    "clocks": _clocks,
    "temperature": _temperature,
    "slowdown": _slowdown,
    "persistence": lambda nvml, gpu: int(nvml.nvmlDeviceGetPersistenceMode(gpu)),
    "links": _links,
    "link_errors": _link_errors,
    "fabric": _fabric,
    "pcie": _pcie,
    "memory": _memory,
    "processes": _processes,
    "mig": lambda nvml, gpu: int(nvml.nvmlDeviceGetMigMode(gpu)[0]),
}
"""In the order in which they are asked: what every GPU answers first."""


if __name__ == "__main__":
    sys.exit(main())
