"""What a fake driver answers, and when: one timeline for both fakes.

As JSON: {"host": {question: answer}, "gpus": [{question: answer}], "then": [{"at": s, "gpu": n, question: answer}]}.

A question is a function of NVML, with a dot and a number for each argument that matters: nvmlDeviceGetTotalEccErrors.1.0,
field.230. An answer is text: what goes into the outputs, with blanks between; `!15` for an error of NVML; `hang` for a call
that never returns. `lost` is all of a GPU's questions, and `event` is an event (its nvmlEventType and number) to who waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

HOST = -1
NOT_SUPPORTED, LOST, UNKNOWN = "!3", "!15", "!999"
NAMING = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetIndex")
"""What works for a GPU that is lost, until the driver is loaded again."""

_EVERY = {
    "nvmlDeviceGetHandleByIndex_v2": "",
    "nvmlDeviceGetTotalEccErrors.1.0": "0",
    "nvmlDeviceGetTotalEccErrors.0.0": "0",
    "nvmlDeviceGetEccMode": "1 1",
    "nvmlDeviceGetCurrentClocksEventReasons": "1",
    "nvmlDeviceGetTemperatureV.0": "31",
    "nvmlDeviceGetTemperatureThreshold.1": "87",
    "nvmlDeviceGetPersistenceMode": "1",
    "nvmlDeviceGetCurrPcieLinkWidth": "16",
    "nvmlDeviceGetMaxPcieLinkWidth": "16",
    "nvmlDeviceGetComputeRunningProcesses_v3": "",
    "nvmlDeviceGetSupportedEventTypes": str(0xFFFF),
}
H100 = {
    **_EVERY,
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetCudaComputeCapability": "9 0",
    "nvmlDeviceGetRemappedRows": "0 0 0 0",
    "nvmlDeviceGetRowRemapperHistogram": "3072 0 0 0 0",
    "field.230": "0",
    "nvmlDeviceGetNvLinkState": " ".join(["1"] * 18),
    "nvmlDeviceGetGpuFabricInfoV": "3 0 0",
    "nvmlDeviceGetCurrPcieLinkGeneration": "5",
    "nvmlDeviceGetMaxPcieLinkGeneration": "5",
    "nvmlDeviceGetMemoryInfo_v2": f"{4 * 2**20} {81559 * 2**20}",
    "nvmlDeviceGetMigMode": "0 0",
}
A100 = {
    **H100,
    "nvmlDeviceGetName": "NVIDIA A100-SXM4-40GB",
    "nvmlDeviceGetCudaComputeCapability": "8 0",
    "nvmlDeviceGetNvLinkState": " ".join(["1"] * 12),
    "nvmlDeviceGetNvLinkErrorCounter": "0 0 0",
    "nvmlDeviceGetGpuFabricInfoV": "0 0 0",
    "nvmlDeviceGetCurrPcieLinkGeneration": "4",
    "nvmlDeviceGetMaxPcieLinkGeneration": "4",
}
V100 = {
    **_EVERY,
    "nvmlDeviceGetName": "Tesla V100-SXM2-16GB",
    "nvmlDeviceGetCudaComputeCapability": "7 0",
    "nvmlDeviceGetRetiredPages": "0 0",
    "nvmlDeviceGetRetiredPagesPendingStatus": "0",
    "nvmlDeviceGetNvLinkState": "1 1 1 1 1 1",
    "nvmlDeviceGetNvLinkErrorCounter": "0 0 0",
    "nvmlDeviceGetCurrPcieLinkGeneration": "3",
    "nvmlDeviceGetMaxPcieLinkGeneration": "3",
    "nvmlDeviceGetMemoryInfo_v2": f"{4 * 2**20} {16160 * 2**20}",
}


@dataclass(frozen=True)
class Script:
    """The timeline. Times are seconds since the process's first call of nvmlInit."""

    gpus: Sequence[Mapping[str, str]] = ()
    host: Mapping[str, str] = field(default_factory=dict)
    then: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(
        cls,
        count: int,
        kind: Mapping[str, str] = H100,
        changes: Mapping[int, Mapping[str, str]] | None = None,
        host: Mapping[str, str] | None = None,
        then: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """So many GPUs of one kind, but for the changes of some, by their number."""
        gpus = [
            {**named(index), **kind, **(changes or {}).get(index, {})} for index in range(count)
        ]
        base = {
            "nvmlInitWithFlags": "",
            "nvmlShutdown": "",
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlSystemGetCudaDriverVersion": "13000",
            "nvmlDeviceGetCount_v2": str(count),
        }
        return cls(gpus, base | dict(host or {}), then)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The script in a text that `to_json` has made."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """The whole timeline as one text."""
        return json.dumps({"gpus": [*self.gpus], "host": self.host, "then": [*self.then]})

    def entries(self) -> list[tuple[float, int, str, str]]:
        """Every answer with its time, GPU and question; a later entry replaces an earlier one."""
        found = [(0.0, HOST, name, answer) for name, answer in self.host.items()]
        for index, gpu in enumerate(self.gpus):
            found += [(0.0, index, name, answer) for name, answer in gpu.items()]
        for step in self.then:
            at, index = float(step["at"]), int(step.get("gpu", HOST))
            rest = {name: str(answer) for name, answer in step.items() if name not in ("at", "gpu")}
            found += [(at, index, name, answer) for name, answer in rest.items()]
        return found

    def flat(self) -> str:
        """The same as lines that C reads without a JSON parser."""
        return "".join(f"{at} {gpu} {name} {answer}\n" for at, gpu, name, answer in self.entries())

    def answer(self, gpu: int, question: str, now: float) -> str:
        """What is said to a question at a time; what nobody has thought of is not supported."""
        known = {
            name: answer for at, index, name, answer in self.entries() if index == gpu and at <= now
        }
        if "lost" in known and question.partition(".")[0] not in NAMING:
            return LOST
        return known.get(question, NOT_SUPPORTED)

    def events(self) -> list[tuple[float, int, int, int]]:
        """Time, GPU, type and number of each event."""
        return sorted(
            (at, index, *map(int, answer.split()))
            for at, index, name, answer in self.entries()
            if name == "event"
        )


def named(index: int) -> dict[str, str]:
    """What tells one GPU from the others."""
    return {
        "nvmlDeviceGetUUID": f"GPU-{index:08x}-1111-2222-3333-444444444444",
        "nvmlDeviceGetPciInfo_v3": f"00000000:{0x53 + index * 0x11:02X}:00.0",
        "nvmlDeviceGetIndex": str(index),
    }
