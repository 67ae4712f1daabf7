"""Installs Horovod's wheel, and proves that it can do what it was built for."""

from __future__ import annotations

import os
import subprocess
import sys

WHEELS = "/mnt/wheels"
BUILT = ("[X] PyTorch", "[X] MPI", "[X] Gloo")
GPU_BUILT = (*BUILT, "[X] NCCL")
RANK = "import horovod.torch as h, torch; h.init(); print('sum', int(h.allreduce(torch.ones(1), op=h.Sum)), flush=True)"
# mpirun asks for an agent even for ranks of one host, and muster-rsh comes into the image last of all.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "/bin/false",
}


def run(*words: str) -> str:
    """Return what a program of the image prints. Raises SystemExit with it where it fails. Effects: runs it."""
    env = {**os.environ, **MPI, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(
            f"muster: {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def main(version: str, device: str) -> int:
    """Install and prove. Raises SystemExit with what is missing. Effects: files in /opt/venv; four processes, for a moment."""
    pip = ["/opt/venv/bin/pip", "install", "--no-index", "--find-links", WHEELS]
    subprocess.run([*pip, f"horovod=={version}"], check=True)
    told = run("horovodrun", "--check-build")
    wanted = GPU_BUILT if device == "gpu" else BUILT
    if missing := [name for name in wanted if name not in told]:
        raise SystemExit(f"muster: this Horovod lacks {', '.join(missing)}\n{told}")
    for controller in ("--gloo", "--mpi"):
        summed = run("horovodrun", controller, "--disable-cache", "-np", "2", "python", "-c", RANK)
        if summed.count("sum 2") != 2:  # noqa: PLR2004  (each of the two ranks says it)
            raise SystemExit(f"muster: two ranks of horovodrun {controller} did not sum\n{summed}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
