"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# The same inputs in every run: what fails in CI fails here. `make test-full` draws others.
settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("full", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile("default")
