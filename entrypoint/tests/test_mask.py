import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import mask
from muster.contract import hyperparameters
from muster.contract.argv import plain
from muster.mask import HIDDEN, is_secret, mask_argv, mask_text

SECRET_KEYS = [
    "hf_token",
    "HF-TOKEN",
    "wandb_api_key",
    "WANDB_APIKEY",
    "password",
    "db-passwd",
    "aws_secret_access_key",
    "access-key",
    "private_key",
    "client_secret",
    "credentials",
    "auth",
    "wandb_key",
    "wandbApiKey",
    "secrets",
    "hf_tokens",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_names_of_secrets(key: str):
    """A value under a name that sounds like a secret is one, in any spelling."""
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        *("lr", "epochs", "key_dim", "monkey", "passes", "api", "seed", "sort_key", "author"),
        *("tokenizer", "max_tokens", "max_new_tokens", "pad_token", "eos_token_id"),
    ],
)
def test_names_of_no_secrets(key: str):
    """Ordinary names are shown: a banner that hides everything helps nobody."""
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@example.com/simple", "https://***@example.com/simple"),
        ("https://token@example.com", "https://***@example.com"),
        ("git+https://x:y@a/b and s3://k@c", "git+https://***@a/b and s3://***@c"),
        ("https://user:p@ss@example.com/simple", "https://***@example.com/simple"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("mail me@example.com", "mail me@example.com"),
        ("", ""),
    ],
)
def test_user_info_of_urls(text: str, shown: str):
    """What stands before the @ of an address is hidden, and nothing else."""
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--hf_token", "x", "--lr", "1"], ("--hf_token", "***", "--lr", "1")),
        (["--hf_token=x", "--lr=1"], ("--hf_token=***", "--lr=1")),
        (["--password", "-x"], ("--password", "***")),
        (["--password"], ("--password",)),
        (["token", "x"], ("token", "x")),
        (["--url", "https://a:b@c"], ("--url", "https://***@c")),
        (["--url=https://a:b@c"], ("--url=https://***@c",)),
        ([], ()),
    ],
)
def test_arguments(argv: list[str], shown: tuple[str, ...]):
    """The value after, or behind the = of, a secret option is hidden."""
    assert mask_argv(argv) == shown


@given(
    key=st.sampled_from(SECRET_KEYS),
    secret=st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=12).map(
        "S".__add__
    ),
    others=st.dictionaries(st.sampled_from(["lr", "url", "x"]), st.text(max_size=5)),
)
def test_a_secret_hyperparameter_is_never_shown(key: str, secret: str, others: dict[str, Any]):
    """The value of a hyperparameter with a secret name is hidden, whatever stands beside it."""
    sent = {name: value for name, value in others.items() if "\0" not in value} | {key: secret}
    user = hyperparameters.split(sent).user
    shown = mask_argv(plain(user))
    option = shown.index(f"--{key}")
    assert shown[option + 1] == HIDDEN
    assert len(shown) == len(plain(user))


def test_a_secret_that_looks_like_an_option():
    """A secret that begins with two dashes is hidden as well."""
    user = hyperparameters.split({"password": "--hunter2"}).user
    assert "hunter2" not in " ".join(mask_argv(plain(user)))


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": "hunter2"},
        {"lr": 1, "tracker": {"api-key": 'a"hunter2'}},
        {"password": 72477372},
        {"tokens": ["x", "hunter2"]},
        {"secret": {"value": "hunter2"}},
        [{"token": "hunter2"}],
    ],
    ids=json.dumps,
)
def test_a_secret_inside_an_object(value: Any):
    """A secret that is a part of a JSON value is hidden like one that stands alone."""
    user = hyperparameters.split({"tracker": json.dumps(value)}).user
    shown = " ".join(mask_argv(plain(user)))
    assert "hunter2" not in shown
    assert "72477372" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unrecognized arguments: --x hunter2000 -y", "unrecognized arguments: --x *** -y"),
        ("{'argv': ['--password', 'hunter2000']}", "{'argv': ['--password', '***']}"),
        ("use hf_abcdefghijklmnop now", "use *** now"),
        ("sk-abcdef1234567890, ghp_abcdef1234567890", "***, ***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("true and 1234567 stay", "true and 1234567 stay"),
    ],
)
def test_values_that_are_known_to_be_secret(monkeypatch, text: str, shown: str):
    """The values of secret names, and tokens of a known form, are hidden wherever they appear:
    an error often repeats its arguments."""
    monkeypatch.setattr(mask, "_values", set())
    mask.learn([("password", "hunter2000"), ("lr", "stay"), ("auth", "true"), ("pat", "1234567")])
    assert mask_text(text) == shown


def test_credentials_of_urls_are_learnt(monkeypatch):
    """What stands in an index's URL is hidden alone, too, as it is written and as it is meant."""
    monkeypatch.setattr(mask, "_values", set())
    urls = ["https://me:se%2Dcret@x", "-i https://a-token-of-some-length@y", "https://${WHO}:x@z"]
    mask.learn_urls(urls, {"WHO": "somebody-with-a-token"})
    text = "me se%2Dcret se-cret a-token-of-some-length somebody-with-a-token"
    assert mask_text(text) == "me *** *** *** ***"


def test_the_current_folder_is_no_password(monkeypatch):
    """Every shell has PWD, and hiding its value would hide each path below it."""
    monkeypatch.setattr(mask, "_values", set())
    mask.learn([("PWD", "/home/of/mine")])
    assert mask_text("/home/of/mine/train.py") == "/home/of/mine/train.py"


def test_arguments_without_dashes():
    """Hydra's key=value hides like an option."""
    assert mask_argv(["api_key=sk", "lr=1", "+auth.token=x"]) == (
        "api_key=***",
        "lr=1",
        "+auth.token=***",
    )


def test_masking_can_be_switched_off():
    """Who debugs a token may see it, by an explicit switch."""
    mask.switch(on=False)
    try:
        assert mask.mask_argv(["--hf_token", "hunter2"]) == ("--hf_token", "hunter2")
        assert mask.mask_text("https://me:hunter2@x") == "https://me:hunter2@x"
    finally:
        mask.switch(on=True)
    assert "hunter2" not in mask.mask_argv(["--hf_token", "hunter2"])
