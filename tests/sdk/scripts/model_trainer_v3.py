"""SDK v3's ModelTrainer in LOCAL_CONTAINER mode, without AWS. Run by test_v3.py.

Arguments: the image, the form (see `forms`), the folder of the code, the channel's folder, the
number of instances.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sagemaker.core.training.configs import Compute, InputData, SourceCode
from sagemaker.train.distributed import SMP, Torchrun
from sagemaker.train.model_trainer import Mode, ModelTrainer

SCRIPT = "digits_ddp.py"
MESH_SCRIPT = "digits_mesh.py"
ROOT = Path(__file__).resolve().parents[3]
# As after `pip install` of muster on the machine that submits jobs.
sys.path.insert(0, str(ROOT / "entrypoint" / "src"))
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # Both hosts share this machine's cores.


from muster.sdk import Muster  # noqa: E402


def forms(code: str) -> dict[str, dict[str, object]]:
    """The arguments that differ from form to form."""
    return {
        # The image's own entry point runs, with no argument: muster.
        "no-source-code": {
            "hyperparameters": {"sagemaker_program": SCRIPT, "epochs": 12},
        },
        # These put their own shell script in the entry point's place.
        "entry-script": {"source_code": SourceCode(source_dir=code, entry_script=SCRIPT)},
        "command": {"source_code": SourceCode(source_dir=code, command=f"muster train {SCRIPT}")},
        # AWS's script hands `command` no hyperparameters; muster reads them itself.
        "command-hyperparameters": {
            "hyperparameters": {"epochs": 11, "lr": 0.02},
            "source_code": SourceCode(source_dir=code, command=f"muster train {SCRIPT}"),
        },
        # Installed by the SDK's script before it starts the entry script.
        "requirements": {
            "hyperparameters": {"epochs": 12},
            "source_code": SourceCode(
                source_dir=code, entry_script=SCRIPT, requirements="requirements.txt"
            ),
        },
        "muster": {
            "hyperparameters": {"epochs": 4},
            "source_code": SourceCode(source_dir=code, entry_script=SCRIPT),
            "distributed": Muster(
                launcher="mpirun",
                process_count_per_node=2,
                mpi_additional_options=["--mca btl_tcp_if_exclude lo,docker0"],
            ),
        },
        "torchrun": {
            "source_code": SourceCode(source_dir=code, entry_script=SCRIPT),
            "distributed": Torchrun(process_count_per_node=2),
        },
        "torchrun-smp": {
            "source_code": SourceCode(source_dir=code, entry_script=MESH_SCRIPT),
            "distributed": Torchrun(
                process_count_per_node=2, smp=SMP(tensor_parallel_degree=2, hybrid_shard_degree=1)
            ),
        },
        "muster-smp": {
            "source_code": SourceCode(source_dir=code, entry_script=MESH_SCRIPT),
            "distributed": Muster(process_count_per_node=2, smp=SMP(tensor_parallel_degree=2)),
        },
    }


def main(image: str, form: str, code: str, training: str, instances: str) -> None:
    """Trains; raises when the job fails."""
    inputs = [InputData(channel_name="training", data_source=training)]
    if form == "no-source-code":
        inputs.append(InputData(channel_name="code", data_source=code))
    trainer = ModelTrainer(
        training_mode=Mode.LOCAL_CONTAINER,
        training_image=image,
        compute=Compute(instance_type="local_cpu", instance_count=int(instances)),
        local_container_root=str(Path.cwd()),
        base_job_name="digits",
        environment=ONE_THREAD,
        **forms(code)[form],
    )
    trainer.train(input_data_config=inputs, wait=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
