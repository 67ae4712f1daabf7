"""For the machine that submits jobs: muster as the `distributed=` of SDK v3's ModelTrainer.

    from muster.sdk import Muster

    ModelTrainer(
        training_image="…/muster/smddp:cpu",
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        distributed=Muster(launcher="mpirun", process_count_per_node=8),
    )

With `source_code`, ModelTrainer puts a shell script in the image's entry point's place. This makes that
script start muster (contract.md 5.1, https://sagemaker.readthedocs.io). Needs `sagemaker` 3 on this
machine, and nothing in the image.
"""

from __future__ import annotations

import os
from typing import List, Optional  # noqa: UP035  (the SDK's models read these at run time)

from sagemaker.train.distributed import Torchrun


# The SDK sends `smp=` as mp_parameters for Torchrun and its subclasses alone.
class Muster(Torchrun):  # type: ignore[misc]
    """How muster is to start the ranks.

    Args:
        launcher: torchrun, mpirun, horovodrun, cluster or plain; default: the image's own.
        process_count_per_node: ranks a host; default: the visible GPUs, or 1.
        mpi_additional_options: for mpirun; each item is read as a shell reads words.
        smp: degrees of parallelism, an SMP of the SDK's; the ranks get a mesh of them (muster.training.mesh).
    """

    launcher: Optional[str] = None  # noqa: UP045
    process_count_per_node: Optional[int] = None  # noqa: UP045
    mpi_additional_options: Optional[List[str]] = None  # noqa: UP006, UP045

    @property
    def driver_dir(self) -> str:
        """The folder that is sent along."""
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), "driver")

    @property
    def driver_script(self) -> str:
        """What ModelTrainer's script runs in the container."""
        return "muster_driver.py"
