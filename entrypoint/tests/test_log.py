import subprocess
import sys

from muster.log import say


def test_every_line_has_the_prefix(capfd):
    """The harness's lines go to stderr, each with a prefix that tells whose they are."""
    say("one\n  two\ngrößer")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "[muster] one\n[muster]   two\n[muster] größer\n"


def test_a_host_signs_with_its_name(clean_env):
    """Where several harnesses share a log, each signs with its host's name."""
    code = "from muster.log import say, sign_as; sign_as('algo-2'); say('hello')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_env, capture_output=True, check=True
    )
    assert done.stderr == b"[muster algo-2] hello\n"


def test_a_closed_log_ends_nothing(clean_env):
    """When nobody reads stderr any more, a line is lost and the harness goes on."""
    code = "import os; from muster.log import say; os.close(2); say('hello'); print('on')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_env, capture_output=True, check=True
    )
    assert done.stdout == b"on\n"


def test_half_a_character_is_shown_as_a_sign(capfd):
    """Text that is no valid Unicode is shown as well as it can be."""
    say("a\ud800b")
    assert capfd.readouterr().err == "[muster] a?b\n"
