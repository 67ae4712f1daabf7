"""How a missing compiler shows in what programs print. Pure."""

from __future__ import annotations

import re

NO_COMPILER = re.compile(
    r"command '([^']*[/-])?(?P<setuptools>gcc|g\+\+|c\+\+|cc|clang)' failed: No such file"
    r"|No such file or directory: '([^']*[/-])?(?P<python>gcc|g\+\+|c\+\+|cc|clang)'"
    r"|\b(?P<shell>gcc|g\+\+|c\+\+|cc|clang): (command )?not found"  # ninja's
    r"|No working C\+\+ compiler found|Failed to find C compiler"  # torch.compile, Triton
)
