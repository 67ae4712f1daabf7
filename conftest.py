"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("full", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")
