"""A driver that isn't there: NVML's answers by a script, for Python (answers.py) and for any program (nvml.c)."""

from fake_nvml.answers import Library
from fake_nvml.build import build_library
from fake_nvml.script import A100, H100, V100, Script

__all__ = ["A100", "H100", "V100", "Library", "Script", "build_library"]
