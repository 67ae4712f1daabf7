"""The trivial distributed job: a first line, one all_reduce, a last line."""

from __future__ import annotations


def main() -> None:
    """Join the group and add the ranks' ones up. Effects: the network, stdout."""
    # Before torch is imported: what is measured is the way to the script, not the script.
    print("bench: first line", flush=True)
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    dist.init_process_group("gloo")
    ones = torch.ones(1)
    dist.all_reduce(ones)
    print(f"bench: {int(ones)} ranks", flush=True)
    dist.destroy_process_group()


main()
