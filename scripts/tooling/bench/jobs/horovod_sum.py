"""The trivial job of Horovod: a first line, one allreduce, a last line."""

from __future__ import annotations


def main() -> None:
    """Join and add the ranks' ones up. Effects: the network, stdout."""
    print("bench: first line", flush=True)
    import horovod.torch as hvd  # noqa: PLC0415  (what is measured is the way to the script, too)
    import torch  # noqa: PLC0415

    hvd.init()
    print(f"bench: {int(hvd.allreduce(torch.ones(1), op=hvd.Sum))} ranks", flush=True)


main()
