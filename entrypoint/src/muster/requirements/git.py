"""How a missing git shows in what programs print, and what to do about it. Pure."""

from __future__ import annotations

import re

NO_GIT = re.compile(
    r"No such file or directory: '(?:[^']*/)?git'"  # Python's
    r"|Cannot find command 'git'"  # pip's
    r"|Git executable not found"  # uv's
    r"|(?<![\w./-])git: (?:command )?not found"  # a shell's
)
HOW_TO_GET_IT = "No tag of muster's has git: an image built with MUSTER_APT_PACKAGES=git has it."
