"""`muster storage-plan`: the guide's example, and what is no plan."""

import json

import pytest

from muster.cli import main


def test_the_guides_example(capsys):
    """100 GB in 30 s on 4 hosts: about 3.3 GB/s, and the FSx for Lustre that gives it."""
    assert main(["storage-plan", "--dataset", "100GB", "--epoch", "30s", "--hosts", "4"]) == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first == "100 GB in 30 s: 3.33 GB/s"
    assert second == "4 hosts: 0.83 GB/s each, 6.7 Gbit/s of its network"
    (scratch,) = [line.split() for line in rest if line.startswith("SCRATCH_2")]
    assert scratch == ["SCRATCH_2", "200", "16.8", "TiB", "3.36", "GB/s"]
    assert "docs.aws.amazon.com" in rest[-1]


def test_as_json(capsys):
    """The same in bytes, with sources and their date."""
    main(["storage-plan", "--dataset", "1TB", "--epoch", "5min", "--hosts", "2", "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["bytes_per_second"] == pytest.approx(10**12 / 300)
    assert plan["bytes_per_second_a_host"] == pytest.approx(10**12 / 600)
    kinds = {
        (one["deployment_type"], one["mb_per_second_per_tib"]) for one in plan["fsx_for_lustre"]
    }
    assert ("PERSISTENT_2", 1000) in kinds
    assert all(one["bytes_per_second"] >= 10**12 / 300 for one in plan["fsx_for_lustre"])
    assert plan["sources"]
    assert plan["read_on"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dataset", "100", "--epoch", "30s"], "'100' is not a size"),
        (["--dataset", "100GB", "--epoch", "0s"], "'0s' is not a time"),
        (["--dataset", "1GB", "--epoch", "1s", "--hosts", "0"], "'0' is not a number"),
        (["--dataset", "0GB", "--epoch", "1s"], "'0GB' is not a size"),
        (["--epoch", "30s"], "--dataset"),
    ],
    ids=["no-unit", "no-time", "no-host", "no-data", "nothing"],
)
def test_what_is_no_plan(capsys, words, said):
    """The word that can't be read is named."""
    with pytest.raises(SystemExit) as caught:
        main(["storage-plan", *words])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
