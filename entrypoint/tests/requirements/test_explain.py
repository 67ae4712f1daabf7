"""Installers' last words, which need more than a venv to be had."""

import signal

import pytest

from muster.requirements.ended import Ended
from muster.requirements.explain import explain

LONG_AGO = "Looking in indexes: https://pypi.example/simple, https://you:me@other.example\n"
CASES = {
    "connect timeout": (
        LONG_AGO + "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
        "'ConnectTimeoutError(<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>, "
        "'Connection to pypi.example timed out. (connect timeout=5)')': /simple/x/\n"
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n",
        "requirements.txt: no way to the index pypi.example: no answer",
    ),
    "no route, old pip": (
        LONG_AGO
        + "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
        "'<object at 0x7f>: Failed to establish a new connection: [Errno 101] Network is unreachable')'\n"
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n",
        "requirements.txt: no way to the index pypi.example, other.example: no route to it",
    ),
    "proxy": (
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError('Unable to connect to "
            "proxy', OSError('Tunnel connection failed: 403 Forbidden'))': /simple/x/\n"
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
        ),
        "requirements.txt: no way to the index pypi.org: the proxy refuses",
    ),
    "certificate": (
        (
            "Could not fetch URL https://pypi.example/simple/x/: There was a problem confirming the ssl certificate: "
            "HTTPSConnectionPool(host='pypi.example', port=443): Max retries exceeded with url: /simple/x/ (Caused by "
            "SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))) - skipping\n"
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
        ),
        "requirements.txt: the certificate of pypi.example:443 is not trusted",
    ),
    "wrong password": (
        LONG_AGO
        + "WARNING: 401 Error, Credentials not correct for https://pypi.example/simple/x/\n"
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n",
        "requirements.txt: the index pypi.example, other.example refuses (401)",
    ),
    "a download that is denied": (
        "ERROR: HTTP error 403 while getting https://pypi.example/files/x-1.whl\n",
        "requirements.txt: the index pypi.org refuses (403)",
    ),
    "other Python, new pip": (
        (
            "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python "
            ">=3.13; 2.0 Requires-Python >=3.14\n"
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
        ),
        "requirements.txt: x needs Python >=3.13 or >=3.14, and this is 3.11",
    ),
    "two packages": (
        "The conflict is caused by:\n    The user requested a==1\n    b 2 depends on a>=2\n\nTo fix this\n",
        "requirements.txt: the packages don't fit together: it asks for a==1; b 2 depends on a>=2",
    ),
    "a constraint of the user's": (
        "The conflict is caused by:\n    The user requested a==1\n    The user requested (constraint) a==2\n\n",
        "requirements.txt: the packages don't fit together: it asks for a==1; a constraint asks for a==2",
    ),
    "wheel that can't be built": (
        (
            "  Building wheel for flash-attn (pyproject.toml): finished with status 'error'\n"
            "  error: subprocess-exited-with-error\n  \u00d7 Building wheel\n  ╰─> [2 lines of output]\n"
            "      x\n      OSError: CUDA_HOME environment variable is not set.\n      [end of output]\n"
            "  ERROR: Failed building wheel for flash-attn\n"
        ),
        "requirements.txt: flash-attn can't be built: OSError: CUDA_HOME environment variable is not set.",
    ),
    "no git": (
        (
            "Collecting small@ git+https://me:****@git.example/x/y@v1 (from -r r.txt (line 1))\n"
            "  Cloning https://me:****@git.example/x/y (to revision v1) to /tmp/pip-install-x/small_3\n"
            "  ERROR: Error [Errno 2] No such file or directory: 'git' while executing command git version\n"
            "ERROR: Cannot find command 'git' - do you have 'git' installed and in your PATH?\n"
        ),
        "requirements.txt: https://me:****@git.example/x/y is fetched by git, which the image lacks",
    ),
    "uv, no git": (
        (
            "   Updating https://git.example/x/y.git (HEAD)\nerror: Git operation failed\n"
            "  cause: Git executable not found. Ensure that Git is installed and available.\n"
        ),
        "requirements.txt: https://git.example/x/y.git is fetched by git, which the image lacks",
    ),
    "disk": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device: '/opt/x'\n",
        "requirements.txt: No space left on device: /opt/x",
    ),
    "user": (
        (
            "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/opt/venv/x'\n"
            "Check the permissions.\n"
        ),
        "requirements.txt: Permission denied: /opt/venv/x",
    ),
    "PEP 668": (
        "error: externally-managed-environment\n\n\u00d7 This environment is externally managed\n",
        "requirements.txt: this Python belongs to the system, which lets nobody install into it (PEP 668)",
    ),
    "unknown": (
        "Collecting x\nERROR: something new\n",
        "requirements.txt: pip ended with status 1: something new",
    ),
    "nothing": ("", "requirements.txt: pip ended with status 1: it has said nothing"),
    "uv, no such version": (
        (
            "error: No solution found when resolving dependencies\n  cause: Because there is no version of a==3 and you "
            "require a==3, we can conclude that your requirements are unsatisfiable.\n"
        ),
        (
            "requirements.txt: the packages can't be had together: Because there is no version of a==3 and you "
            "require a==3, we can conclude that your requirements are unsatisfiable."
        ),
    ),
    "uv, no way": (
        (
            "error: Request failed after 2 retries in 3.0s\n  cause: Failed to fetch: `http://127.0.0.1:9/simple/a/`\n"
            "  cause: error sending request for url (http://127.0.0.1:9/simple/a/)\n  cause: client error (Connect)\n"
            "  cause: tcp connect error\n  cause: Connection refused (os error 111)\n"
        ),
        "requirements.txt: no way to the index 127.0.0.1:9: connection refused",
    ),
    "uv, no answer": (
        (
            "error: Request failed after 2 retries in 19.1s\n  cause: Failed to fetch: http://192.0.2.1/simple/a/\n"
            "  cause: error sending request for url (http://192.0.2.1/simple/a/)\n  cause: operation timed out\n"
        ),
        "requirements.txt: no way to the index 192.0.2.1: no answer",
    ),
    "uv, no access": (
        (
            "error: No solution found when resolving dependencies\n  cause: Because a was not found in the package "
            "registry and you require a, we can conclude that your requirements are unsatisfiable.\n\nhint: An index "
            "(https://x.example/simple) returned a 403 Forbidden error.\n"
        ),
        "requirements.txt: the index x.example refuses (403)",
    ),
}


@pytest.mark.parametrize(("output", "what"), CASES.values(), ids=list(CASES))
def test_last_words(output: str, what: str):
    """What an installer prints is told in one line, by package, host or file."""
    assert explain(Ended(output, 1, python="3.11")).what == what


def test_a_killed_installer():
    """A kill for memory is told as that, whatever was printed before."""
    error = explain(Ended("ERROR: x\n", -signal.SIGKILL))
    assert error.what == "requirements.txt: pip was killed by SIGKILL"
    assert "memory" in error.remedy


def test_one_that_was_given_up():
    """Where we ended it, the index that doesn't answer is the reason, not our signal."""
    text = (
        LONG_AGO + "WARNING: Retrying (Retry(total=2)) after connection broken by 'ReadTimeoutError"
    )
    end = Ended(text, -signal.SIGINT, gave_up=True)
    assert explain(end).what.startswith("requirements.txt: no way to the index pypi.example")
