from __future__ import annotations

from muster.channel.rollcall import RollCall

REASONS = {"algo-7": "its name does not resolve"}
HOSTS = [f"algo-{i + 1}" for i in range(16)]


def test_hosts_that_start_together_get_one_line():
    """Within a second nothing is said but that all are here."""
    call = RollCall(16, 0.0)
    assert call.line(HOSTS[1:], {}, 0.5) == ""
    assert call.line([], {}, 0.9) == "all 16 hosts are here after 0.9 s"


def test_a_line_for_each_change():
    """Who is missing and why, once; again only when that has changed, and at most once a second."""
    call = RollCall(16, 0.0)
    line = "15 of 16 hosts after 12 s, missing: algo-7 (its name does not resolve)"
    assert call.line(["algo-7"], REASONS, 12.0) == line
    assert call.line(["algo-7"], REASONS, 20.0) == ""
    assert call.line(["algo-7"], {}, 20.5) == ""
    assert call.line(["algo-7"], {}, 21.0) == (
        "15 of 16 hosts after 21 s, missing: algo-7 (has not called)"
    )


def test_the_rare_reason_comes_first():
    """Of hundreds of hosts some are named, and a reason that few have is not lost among them."""
    line = RollCall(16, 0.0).line(HOSTS[1:], REASONS, 2.0)
    assert line == (
        "1 of 16 hosts after 2 s, missing: algo-7 (its name does not resolve); "
        "algo-2, algo-3, algo-4, algo-5 and 10 more (has not called)"
    )
