"""docs/reference.md, docs/gpus.md and docs/checks.md are what the code's tables say."""

from __future__ import annotations

import dataclasses
import importlib
import sys

import pytest
import tomllib


@pytest.fixture
def tooling(root, monkeypatch):
    """Imports a module of scripts/tooling."""
    monkeypatch.setattr(sys, "path", [str(root / "scripts"), *sys.path])
    return lambda name: importlib.import_module(f"tooling.{name}")


def test_the_reference_is_made_from_the_tables(root, tooling):
    """The page is current; `make reference` writes it."""
    page = (root / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == tooling("reference").text()


def test_the_gpu_page_is_made_from_the_table(root, tooling):
    """The same for docs/gpus.md."""
    gpus = tooling("gpus")
    instances = tomllib.loads(gpus.INSTANCES.read_text(encoding="utf-8"))
    assert (root / "docs" / "gpus.md").read_text(encoding="utf-8") == gpus.text(instances)


def test_the_page_of_checks_is_made_from_the_registry(root, tooling):
    """The same for docs/checks.md."""
    assert (root / "docs" / "checks.md").read_text(encoding="utf-8") == tooling("checks").text()


def test_every_check_has_a_row(tooling):
    """Under its group's title, also where a new group has none; a bar in a text ends no cell."""
    checks = tooling("checks")
    known = checks.text()
    assert all(f"\n| `{check.name}` | {check.level} | " in known for check in checks.CHECKS)
    other = dataclasses.replace(checks.CHECKS[0], name="odd.one", what="a | b", remedy="")
    page = checks.text((checks.CHECKS[0], other))
    assert "## The host\n" in page
    assert "## odd\n" in page
    assert "| a \\| b |" in page
    assert page.endswith("| — |\n")


@pytest.mark.parametrize(
    ("capability", "runs"),
    [("7.0", False), ("7.5", True), ("8.9", True), ("9.0", True), ("10.3", True), ("11.0", False)],
)
def test_a_gpu_runs_code_of_its_own_generation(tooling, capability, runs):
    """Code for 8.6 runs on 8.9, code for 7.5 not on 7.0, and none on another generation."""
    tag = {"architectures": ["7.5", "8.0", "8.6", "9.0", "10.0"]}
    assert tooling("gpus").serves(tag, capability) == runs


def test_an_instance_without_an_image_is_an_error(tooling):
    """A new instance is not shown with an empty cell."""
    family = {"names": ["ml.x"], "gpu": "X", "capability": "3.7"}
    with pytest.raises(ValueError, match="no image serves"):
        tooling("gpus").text({"tags": [], "families": [family]})
