"""Variables that are too long to be variables, as files. Effects: writes files.

Linux takes at most 128 KiB for one string of the environment, its name included
(MAX_ARG_STRLEN, https://man7.org/linux/man-pages/man2/execve.2.html), and SM_HPS or
SM_TRAINING_ENV can be longer: SageMaker allows 100 hyperparameters of 2500 characters.
A program started with a longer one does not start at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from muster.log import say

LONGEST = 128 * 1024 - 1
"""Bytes of NAME=VALUE without the NUL behind it."""


def spill(env: Mapping[str, str], folder: Callable[[], str]) -> dict[str, str]:
    """`env`, with NAME_FILE in place of each NAME whose value is too long.

    The file holds the value. `folder` is asked for its place only when there is one.
    """
    fitting: dict[str, str] = {}
    for name, value in env.items():
        if len(os.fsencode(f"{name}={value}")) <= LONGEST:
            fitting[name] = value
            continue
        path = os.path.join(folder(), f"{name}.txt")
        with open(path, "wb") as file:
            file.write(os.fsencode(value))
        fitting[f"{name}_FILE"] = path
        say(f"{name} is longer than a variable may be: its value is in the file {name}_FILE names")
    return fitting
