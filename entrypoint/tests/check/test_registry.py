import pytest

from muster.check.registry import CHECKS, LATER


@pytest.mark.parametrize("check", [*CHECKS, *LATER], ids=lambda check: check.name)
def test_what_may_warn_or_fail_says_what_to_do(check):
    """The page has a remedy for it, and where its limits come from."""
    if "WARN" in check.limits or "FAIL" in check.limits:
        assert check.remedy
        assert check.source
