"""pip and uv as argv and environment."""

import pytest

from muster.requirements.installer import Tool, commands, environment
from muster.requirements.packages import Found
from muster.requirements.request import Request

FILE = Request("/code", file="/code/requirements.txt")


def found(*, hashes: bool = False, **config: str) -> Found:
    """Return what a Python holds, with these settings of pip."""
    return Found("3.11", {}, "26.3", False, {}, (), hashes, False, config)  # noqa: FBT003


def test_pip_is_short_of_patience():
    """Where the user says nothing, an index has seconds; nothing asks questions or draws bars."""
    (argv,) = commands(Tool("/venv/bin/python"), FILE, found(), "/tmp/c.txt")
    assert argv[:2] == ("/venv/bin/python", "-c")
    text = " ".join(argv[3:])
    assert text == (
        "install --no-input --disable-pip-version-check --no-color --progress-bar off "
        "--retries 2 --timeout 5 --constraint /tmp/c.txt --requirement /code/requirements.txt"
    )


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"retries": "9"}, {"--timeout"}),
        ({"timeout": "99"}, {"--retries"}),
        ({"default-timeout": "99"}, {"--retries"}),
        ({"default-timeout": "99", "retries": "9"}, set()),
    ],
    ids=["retries", "timeout", "default-timeout", "both"],
)
def test_the_users_limits_win(config: dict[str, str], kept: set[str]):
    """What a variable or pip.conf says is not said again on the command line, which would win."""
    (argv,) = commands(Tool("/venv/bin/python"), FILE, found(**config), "")
    assert {"--retries", "--timeout"} & set(argv) == kept


def test_wheels_need_no_index():
    """A folder of wheels is all that is asked."""
    request = Request("/code", file="/code/requirements.txt", wheels="/code/wheels")
    (argv,) = commands(Tool("/venv/bin/python"), request, found(), "")
    assert " ".join(argv).endswith(
        "--no-index --find-links /code/wheels --requirement /code/requirements.txt"
    )


def test_the_project_goes_along():
    """One command installs both; with hashes, which a folder can't have, two do."""
    request = Request("/code", file="/code/requirements.txt", project="/code")
    (argv,) = commands(Tool("/venv/bin/python"), request, found(), "")
    assert argv[-3:] == ("--requirement", "/code/requirements.txt", "/code")
    first, second = commands(Tool("/venv/bin/python"), request, found(hashes=True), "")
    assert first[-2:] == ("--requirement", "/code/requirements.txt")
    assert second[-2:] == ("--no-deps", "/code")


def test_uv():
    """Uv gets the Python and no limits: those are variables."""
    (argv,) = commands(Tool("/venv/bin/python", "/bin/uv"), FILE, found(), "/tmp/c.txt")
    assert " ".join(argv) == (
        "/bin/uv pip install --python /venv/bin/python --no-progress --color never "
        "--constraint /tmp/c.txt --requirement /code/requirements.txt"
    )
    assert environment({})["UV_HTTP_TIMEOUT"] == "5"
    assert environment({"UV_HTTP_TIMEOUT": "60"})["UV_HTTP_TIMEOUT"] == "60"


def test_the_environment_is_the_jobs():
    """Whatever the user has set stays, but for what would keep pip from saying why it failed."""
    own = {"PIP_EXTRA_INDEX_URL": "https://x.example", "RES_OPTIONS": "timeout:9", "PIP_QUIET": "3"}
    env = environment(own)
    assert env["PIP_EXTRA_INDEX_URL"] == "https://x.example"
    assert env["RES_OPTIONS"] == "timeout:9"
    assert "PIP_QUIET" not in env
    assert environment({})["RES_OPTIONS"] == "timeout:2 attempts:2"


def test_a_token_is_a_variable():
    """An index with a token is given where other users can't see it, in front of the user's own."""
    env = environment({"PIP_INDEX_URL": "https://pypi.example"}, "https://aws:t@ca.example/simple/")
    assert env["PIP_INDEX_URL"] == env["UV_DEFAULT_INDEX"] == "https://aws:t@ca.example/simple/"


@pytest.mark.parametrize(
    ("own", "warm", "cache", "off"),
    [
        ({"PIP_NO_CACHE_DIR": "1"}, "/warm", "/warm/pip", False),
        ({"PIP_NO_CACHE_DIR": "1"}, None, None, True),
        ({"PIP_NO_CACHE_DIR": "1", "PIP_CACHE_DIR": "/mine"}, "/warm", "/mine", False),
    ],
    ids=["warm", "cold", "own"],
)
def test_the_cache_of_a_warm_pool(
    own: dict[str, str], warm: str | None, cache: str | None, off: bool
):
    """A warm pool's folder is pip's cache, unless the user has one; without a pool the image's setting holds."""
    env = environment(own, warm_cache=warm)
    assert env.get("PIP_CACHE_DIR") == cache
    assert ("PIP_NO_CACHE_DIR" in env) == off
    assert env.get("UV_CACHE_DIR") == (f"{warm}/uv" if warm else None)
