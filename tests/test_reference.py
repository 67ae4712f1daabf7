"""docs/reference.md is what the code's tables say."""

from __future__ import annotations

import importlib.util


def test_the_reference_is_made_from_the_tables(root):
    """The page is current; `make reference` writes it."""
    path = root / "scripts" / "tooling" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (root / "docs" / "reference.md").read_text(encoding="utf-8") == module.text()
