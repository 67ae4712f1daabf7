"""What the SDKs' reserved hyperparameters do, each of them."""

from __future__ import annotations

import pytest

from muster.contract.hyperparameters import is_reserved
from muster.errors import PlanError
from muster.plan.reserved import TABLE, review


@pytest.mark.parametrize("key", TABLE)
def test_every_key_of_the_table(key):
    """A key is kept from the script, and honoured, ignored with one line, or refused."""
    assert is_reserved(key)
    treatment, why = TABLE[key]
    if treatment == "refused":
        with pytest.raises(PlanError, match=key) as error:
            review({key: "true"}, {})
        assert error.value.remedy.lower() == f"{why}.".lower()
        assert review({key: "false"}, {}) == ()
    else:
        said = (f"ignored: {key} ({why})",) if treatment == "ignored" else ()
        assert review({key: "true"}, {}) == said


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sagemaker_mpi_num_of_process_per_host", "sagemaker_mpi_num_of_processes_per_host"),
        ("sagemaker_torch_distributed_enable", "sagemaker_torch_distributed_enabled"),
        ("sagemaker_programm", "sagemaker_program"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_right_one(key, meant):
    """A typing error would otherwise run another job than the one that was meant."""
    with pytest.raises(PlanError, match=f"{key} is unknown") as error:
        review({key: "true"}, {})
    assert f"Did you mean {meant}?" in error.value.remedy


def test_a_key_of_a_later_sdk_is_said_and_ignored():
    """What is like no known key can't be a typing error of one."""
    assert review({"sagemaker_foo": "6"}, {}) == (
        "ignored: sagemaker_foo (unknown; keys with sagemaker_ never reach the script)",
    )


def test_neuron_is_refused_by_name():
    """RUN_NEURON_PARALLEL_COMPILE asks for hardware that these images don't serve."""
    with pytest.raises(PlanError, match="AWS Neuron"):
        review({}, {"RUN_NEURON_PARALLEL_COMPILE": "1"})
    assert review({}, {"RUN_NEURON_PARALLEL_COMPILE": "0"}) == ()
