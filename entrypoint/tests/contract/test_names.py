import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.contract.names import make_names


@pytest.mark.parametrize(
    ("keys", "names", "shared"),
    [
        (["train"], {"P_TRAIN": "train"}, {}),
        (["my-data"], {"P_MY-DATA": "my-data", "P_MY_DATA": "my-data"}, {}),
        (["LR", "lr"], {"P_LR": "lr"}, {"P_LR": ("LR", "lr")}),
        (
            ["batch-size", "batch_size"],
            {"P_BATCH-SIZE": "batch-size", "P_BATCH_SIZE": "batch_size"},
            {"P_BATCH_SIZE": ("batch-size", "batch_size")},
        ),
        (
            ["a-b", "a.b"],
            {"P_A-B": "a-b", "P_A.B": "a.b", "P_A_B": "a-b"},
            {"P_A_B": ("a.b", "a-b")},
        ),
        (["k=v"], {"P_K_V": "k=v"}, {}),
        ([""], {"P_": ""}, {}),
    ],
)
def test_names(keys, names, shared):
    """Both spellings; the later of two that differ in case wins, and no alias hides a name."""
    made = make_names("P_", keys)
    assert dict(made.keys) == names
    assert dict(made.shared) == shared


@given(st.sets(st.text(st.characters(codec="utf-8"), max_size=4), max_size=6).map(sorted))
def test_every_key_has_its_name_or_is_told(keys: list[str]):
    """No key is left without a variable in silence."""
    made = make_names("P_", keys)
    told = {key for claimants in made.shared.values() for key in claimants}
    assert set(keys) <= set(made.keys.values()) | told
    for name, claimants in made.shared.items():
        assert made.keys[name] == claimants[-1]
