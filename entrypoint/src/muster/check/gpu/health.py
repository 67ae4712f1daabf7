"""Whether a GPU is broken: lost, errors in its memory, what its driver asks for. Pure."""

from __future__ import annotations

from muster.check.finding import Finding, Here, passed, skipped
from muster.check.gpu.asking import Look
from muster.check.gpu.facts import Gpu, Missing
from muster.check.gpu.judging import failed, lacking, over, warned
from muster.check.gpu.limits import CORRECTED, PAGES, ROWS
from muster.check.gpu.remedies import ECC_ON, MAY_FAIL, NO_SPARE, RESET

ACTIONS = {
    1: "a reset of the GPU",
    2: "a reboot of the host",
    3: "no more traffic with other GPUs",
    4: "no more traffic with other GPUs, and a reset",
    5: "a repair of the IMEX domain",
    6: "a reset of its bus",
    7: "a reboot of the system",
}
"""What field 230 asks for (NVML_GPU_RECOVERY_ACTION of nvml.h)."""
_ACTIONS_THAT_FAIL = (1, 2, 4, 6, 7)


def lost(look: Look) -> Finding:
    """Whether all of them are still on the bus."""
    gone = [gpu for gpu in look.visible.gpus if gpu.lost]
    if gone:
        named = "; ".join(f"{gpu.title}: {gpu.lost}" for gpu in gone)
        return failed(f"{len(gone)} of {len(look.gpus)} GPUs: {named}")
    return over(look, lambda _: passed("they answer"))


def recovery(gpu: Gpu) -> Finding:
    """What the driver itself asks for."""
    action = gpu.recovery
    if isinstance(action, Missing):
        return lacking(action, "recovery action")
    if action == 0:
        return passed("the driver asks for nothing")
    evidence = f"the driver asks for {ACTIONS.get(action, f'action {action}')}"
    if action in _ACTIONS_THAT_FAIL:
        return failed(evidence)
    return warned(evidence, RESET)


def uncorrected(gpu: Gpu) -> Finding:
    """Errors in memory that lost data."""
    count = gpu.uncorrected
    if isinstance(count, Missing):
        return lacking(count, "ECC counter")
    evidence = f"{count} uncorrected ECC errors since the driver was loaded"
    return failed(evidence) if count else passed(evidence)


def corrected(gpu: Gpu) -> Finding:
    """Errors in memory that were put right: many announce the others."""
    count = gpu.corrected
    if isinstance(count, Missing):
        return lacking(count, "ECC counter")
    evidence = f"{count} corrected ECC errors since the driver was loaded"
    if count <= CORRECTED:
        return passed(evidence)
    return warned(evidence, MAY_FAIL)


def ecc_mode(gpu: Gpu, here: Here) -> Finding:
    """Whether errors in memory would be seen."""
    mode = gpu.ecc_mode
    if isinstance(mode, Missing):
        return lacking(mode, "ECC")
    if mode:
        return passed("ECC is on")
    evidence = "ECC is off: wrong values in memory go unseen"
    training_instance = here.job.instance_type.startswith("ml.p")
    return failed(evidence) if training_instance else warned(evidence, ECC_ON)


def remap(gpu: Gpu) -> Finding:
    """Rows of memory that were replaced by spare ones."""
    rows = gpu.remapped
    if isinstance(rows, Missing):
        return lacking(rows, "row remapping")
    _, uncorrectable, pending, failure = rows
    if failure:
        return failed("a row of its memory could not be replaced by a spare one")
    if uncorrectable >= ROWS:
        return failed(
            f"{uncorrectable} rows of its memory were replaced after uncorrectable errors"
        )
    if pending:
        return warned("a row of its memory waits for a reset to be replaced", RESET)
    if not isinstance(gpu.spare, Missing) and gpu.spare[-1]:
        used_up = f"{gpu.spare[-1]} banks of its memory have no spare row left"
        return warned(used_up, NO_SPARE)
    return passed(f"{uncorrectable} rows replaced after uncorrectable errors, none pending")


def pages(gpu: Gpu) -> Finding:
    """The same on GPUs older than the A100: pages taken out of use."""
    count = gpu.retired
    if isinstance(count, Missing):
        return lacking(count, "page retirement")
    if gpu.retiring == 1:
        return failed("a page of its memory waits for a restart to be taken out of use", RESET)
    evidence = f"{count} pages of its memory are out of use"
    return failed(evidence) if count >= PAGES else passed(evidence)


def xid(look: Look) -> Finding:
    """Never a PASS: what happened before the job can't be seen from a container."""
    if look.trouble:
        return look.trouble
    return skipped(
        "a container has no kernel log, and NVML tells only what comes later: "
        "gpu.ecc, gpu.remap and gpu.recovery see what earlier errors have left"
    )
