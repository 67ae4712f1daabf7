"""The fake for unit tests: stands for the loaded C library, so that nvidia-ml-py's own code runs.

`pynvml.nvmlLib = Library(script)`, and an empty pynvml._nvmlGetFunctionPointer_cache: it keeps the functions of the last one.
"""
# ruff: noqa: N802  (the functions have the C library's names)

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fake_nvml.script import HOST, Script

_TIMEOUT, _INVALID, _TOO_SMALL = 10, 2, 7
_HANG_S = 60
_TEXTS = ("nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlSystemGetDriverVersion")
_OUTPUTS = {
    "nvmlSystemGetCudaDriverVersion": 0,
    "nvmlDeviceGetCount_v2": 0,
    "nvmlDeviceGetCudaComputeCapability": 0,
    "nvmlDeviceGetEccMode": 0,
    "nvmlDeviceGetTotalEccErrors": 2,
    "nvmlDeviceGetRemappedRows": 0,
    "nvmlDeviceGetRetiredPagesPendingStatus": 0,
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
    "nvmlDeviceGetTemperature": 1,
    "nvmlDeviceGetTemperatureThreshold": 1,
    "nvmlDeviceGetPersistenceMode": 0,
    "nvmlDeviceGetCurrPcieLinkGeneration": 0,
    "nvmlDeviceGetMaxPcieLinkGeneration": 0,
    "nvmlDeviceGetCurrPcieLinkWidth": 0,
    "nvmlDeviceGetMaxPcieLinkWidth": 0,
    "nvmlDeviceGetMigMode": 0,
    "nvmlDeviceGetIndex": 0,
    "nvmlDeviceGetSupportedEventTypes": 0,
}
"""Functions that only fill in numbers, with how many of their arguments are part of the question."""


class _Said(Exception):  # noqa: N818  (a return code)
    """The driver returns an error."""


class Library:
    """One driver. What its script calls absent, it has no symbol for."""

    def __init__(self, script: Script, absent: Sequence[str] = ()) -> None:
        self.script = script
        self.absent = absent
        self.asked: list[str] = []
        """Every call, by its function."""
        self.released = threading.Event()
        """Lets calls return that hang."""
        self._began = time.monotonic()
        self._told = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        """The function of that name, as ctypes has it."""
        special = getattr(type(self), f"_{name}", None)
        if name in self.absent or not (special or name in _OUTPUTS or name in _TEXTS):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.asked.append(name)
            try:
                if special:
                    special(self, *arguments)
                elif name in _TEXTS:
                    self._text(name, *arguments)
                else:
                    self._numbers(name, *arguments)
            except _Said as said:
                return int(said.args[0])
            return 0

        return call

    def _ask(self, gpu: int, question: str) -> list[str]:
        if question == "nvmlInitWithFlags":
            self._began = time.monotonic()
        answer = self.script.answer(gpu, question, time.monotonic() - self._began)
        if answer == "hang":
            self.released.wait(_HANG_S)
        if answer.startswith("!"):
            raise _Said(int(answer[1:]))
        return answer.split(" ") if answer else []

    def _numbers(self, name: str, *arguments: Any) -> None:
        device = name.startswith("nvmlDevice") and name != "nvmlDeviceGetCount_v2"
        rest = arguments[1:] if device else arguments
        asked = [str(getattr(one, "value", one)) for one in rest[: _OUTPUTS[name]]]
        gpu = _index(arguments[0]) if device else HOST
        outputs = rest[_OUTPUTS[name] :]
        for output, number in zip(outputs, self._ask(gpu, ".".join([name, *asked])), strict=True):
            output._obj.value = int(number)

    def _text(self, name: str, *arguments: Any) -> None:
        gpu = _index(arguments[0]) if name.startswith("nvmlDevice") else HOST
        # As bytes of any kind: what is no UTF-8 is written as \\xNN in a script.
        text = " ".join(self._ask(gpu, name)).encode().decode("unicode_escape").encode("latin-1")
        arguments[-2].value = text

    def _nvmlInitWithFlags(self, _flags: Any) -> None:
        self._ask(HOST, "nvmlInitWithFlags")

    def _nvmlShutdown(self) -> None:
        self._ask(HOST, "nvmlShutdown")

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> None:
        self._ask(index.value, "nvmlDeviceGetHandleByIndex_v2")
        _point(handle._obj, index.value)

    def _nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> None:
        (bus,) = self._ask(_index(handle), "nvmlDeviceGetPciInfo_v3")
        info._obj.busId = bus.encode()

    def _nvmlDeviceGetRowRemapperHistogram(self, handle: Any, info: Any) -> None:
        numbers = self._ask(_index(handle), "nvmlDeviceGetRowRemapperHistogram")
        for name, number in zip(("max", "high", "partial", "low", "none"), numbers, strict=True):
            setattr(info._obj, name, int(number))

    def _nvmlDeviceGetTemperatureV(self, handle: Any, info: Any) -> None:
        question = f"nvmlDeviceGetTemperatureV.{info._obj.sensorType}"
        info._obj.temperature = int(self._ask(_index(handle), question)[0])

    def _nvmlDeviceGetRetiredPages(self, handle: Any, cause: Any, count: Any, pages: Any) -> None:
        number = int(self._ask(_index(handle), "nvmlDeviceGetRetiredPages")[cause.value])
        room, count._obj.value = count._obj.value, number
        if pages is None and number > room:
            raise _Said(_TOO_SMALL)

    def _nvmlDeviceGetNvLinkState(self, handle: Any, link: int, state: Any) -> None:
        states = self._ask(_index(handle), "nvmlDeviceGetNvLinkState")
        if link >= len(states):
            raise _Said(_INVALID)
        state._obj.value = int(states[link])

    def _nvmlDeviceGetNvLinkErrorCounter(
        self, handle: Any, link: int, counter: int, output: Any
    ) -> None:
        numbers = self._ask(_index(handle), "nvmlDeviceGetNvLinkErrorCounter")
        output._obj.value = int(numbers[counter]) if link == 0 else 0

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> None:
        if self.script.answer(_index(handle), "lost", time.monotonic() - self._began) == "!15":
            raise _Said(15)
        for value in values._obj[: count.value]:
            try:
                value.value.uiVal = int(self._ask(_index(handle), f"field.{value.fieldId}")[0])
            except _Said as said:
                value.nvmlReturn = said.args[0]

    def _nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any) -> None:
        numbers = self._ask(_index(handle), "nvmlDeviceGetGpuFabricInfoV")
        info._obj.state, info._obj.status, info._obj.healthMask = map(int, numbers)

    def _nvmlDeviceGetMemoryInfo_v2(self, handle: Any, info: Any) -> None:
        numbers = self._ask(_index(handle), "nvmlDeviceGetMemoryInfo_v2")
        info._obj.used, info._obj.total = map(int, numbers)

    def _nvmlDeviceGetComputeRunningProcesses_v3(
        self, handle: Any, count: Any, processes: Any
    ) -> None:
        numbers = self._ask(_index(handle), "nvmlDeviceGetComputeRunningProcesses_v3")
        room, count._obj.value = count._obj.value, len(numbers) // 2
        if count._obj.value > room:
            raise _Said(_TOO_SMALL)
        for place in range(count._obj.value):
            processes[place].pid = int(numbers[2 * place])
            processes[place].usedGpuMemory = int(numbers[2 * place + 1])

    def _nvmlEventSetCreate(self, events: Any) -> None:
        _point(events._obj, 0)

    def _nvmlDeviceRegisterEvents(self, handle: Any, _types: Any, _events: Any) -> None:
        self._ask(_index(handle), "nvmlDeviceGetSupportedEventTypes")

    def _nvmlEventSetWait_v2(self, _events: Any, data: Any, timeout_ms: Any) -> None:
        deadline = time.monotonic() + timeout_ms.value / 1000
        due = self.script.events()[self._told :]
        at = self._began + due[0][0] if due else deadline + 1
        time.sleep(max(0.0, min(at, deadline) - time.monotonic()))
        if at > deadline:
            raise _Said(_TIMEOUT)
        self._told += 1
        _, gpu, kind, number = due[0]
        _point(data._obj.device, gpu)
        data._obj.eventType, data._obj.eventData = kind, number

    def _nvmlEventSetFree(self, _events: Any) -> None:
        return


def _point(pointer: Any, index: int) -> None:
    ctypes.cast(ctypes.pointer(pointer), ctypes.POINTER(ctypes.c_void_p)).contents.value = index + 1


def _index(handle: Any) -> int:
    address = ctypes.cast(handle, ctypes.c_void_p).value
    assert address is not None
    return address - 1
