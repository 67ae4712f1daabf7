import builtins

import pytest

from muster.plan.instances import family_of, gpus_of, read_instances


@pytest.mark.parametrize(
    ("kind", "gpus"),
    [
        ("ml.p3.2xlarge", 1),
        ("ml.p3dn.24xlarge", 8),
        ("ml.g4dn.12xlarge", 4),
        ("ml.p4de.24xlarge", 8),
        ("ml.g5.48xlarge", 8),
        ("ml.gr6.8xlarge", 1),
        ("ml.g6e.12xlarge", 4),
        ("ml.p5.4xlarge", 1),
        ("ml.p5en.48xlarge", 8),
        ("ml.p6-b300.48xlarge", 8),
        ("ml.p5.7xlarge", None),
        ("ml.m5.large", None),
        ("local_gpu", None),
        ("", None),
    ],
)
def test_gpus_of_a_type(kind, gpus):
    """The table's number; what isn't known is not guessed."""
    assert gpus_of(read_instances(), kind) == gpus


def test_a_family_has_what_all_its_sizes_share():
    """Found by any of its names."""
    assert family_of(read_instances(), "ml.p5en.48xlarge")["nvlinks"] == 18
    assert family_of(read_instances(), "ml.m5.large") == {}


def test_every_family_counts_its_gpus():
    """A new family comes with them: without, a host with too few would not be found."""
    for family in read_instances()["families"]:
        assert all(count in (1, 4, 8) for count in family["counts"].values()), family["names"]
        assert family["counts"], family["names"]


def test_without_tomllib_nothing_is_known(monkeypatch):
    """Python 3.10 has none."""
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "tomllib":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert read_instances() == {}
