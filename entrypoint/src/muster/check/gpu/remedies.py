"""What to do about a GPU: the same words in a finding and on the page. Apart from the rules, which CPU jobs never import."""

from __future__ import annotations

REPLACE = (
    "It is the machine, not your code. Start the job again, so that it gets another instance; "
    "if it is the same GPU again, tell AWS Support its UUID."
)
RESET = "A reset of the GPU mends it, which a container can't do. Start the job again, so that it gets another instance."
MAY_FAIL = "Its memory may fail in this job: save checkpoints often."
NO_SPARE = "The next error there can't be mended: save checkpoints often."
ECC_ON = "`nvidia-smi -e 1` and a reboot switch it on, where the host is yours."
SLOW = "It will lag behind the others. Start the job again elsewhere if it does."
HOT = "It is hot before it works: it will be slow. Start the job again elsewhere."
IN_USE = (
    "End what uses the GPU (`nvidia-smi` on the host), or choose others by CUDA_VISIBLE_DEVICES."
)
WRONG_ENTRY = "CUDA reads the list up to its first wrong entry: correct or unset the variable."
OTHER_TAG = "Use the tag that it names, or choose another instance (docs/gpus.md)."
WEAK_LINK = "If collectives in this host are slow, it is this GPU: start the job again elsewhere."
MANAGER = "NVIDIA's fabric manager on the host sees to that. Start the job again, so that it gets another instance."
NARROW = "Batches reach this GPU slowly. Start the job again elsewhere if it lags."
