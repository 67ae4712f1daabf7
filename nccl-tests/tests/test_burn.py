import json
import subprocess

import pytest
import torch
from perf_worlds import BIN, torchrun

from muster_perf.burn import Burned, burn, judge

CPU = torch.device("cpu")
GOOD = Burned(9, 0, 5.0, 7)


def test_products_that_agree():
    """Each is compared with the first, and the digest is the same in every process and on every machine."""
    found = burn(CPU, 0.0)
    assert found.products == 3
    assert found.wrong == 0
    assert found.milliseconds > 0
    assert found.digest == burn(CPU, 0.0).digest == 1315700736


@pytest.mark.parametrize("bit", [0, 12, 30])
def test_one_bit_of_one_product(bit):
    """Is found, whichever it is."""
    calls = []

    def multiply(left, right):
        product = torch.matmul(left, right)
        calls.append(1)
        if len(calls) == 3:
            product.view(torch.int32)[17, 311] ^= 1 << bit
        return product

    found = burn(CPU, 0.0, multiply)
    assert (found.products, found.wrong) == (3, 1)


def test_products_that_are_all_wrong_alike():
    """Only other ranks can tell: the digest is another one, also where two elements change places."""

    def multiply(left, right):
        product = torch.matmul(left, right)
        product[[3, 4]] = product[[4, 3]]
        return product

    found = burn(CPU, 0.0, multiply)
    assert found.wrong == 0
    assert found.digest != burn(CPU, 0.0).digest


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([GOOD], []),
        ([GOOD] * 3, []),
        ([GOOD, GOOD._replace(wrong=2)], ["rank 1: 2 of 9 products differ from its first"]),
        (
            [GOOD, GOOD, GOOD._replace(digest=8)],
            ["rank 2: its products differ from the other ranks'"],
        ),
        ([GOOD, GOOD._replace(digest=8)], ["the ranks' products differ from each other"]),
    ],
)
def test_who_is_wrong(found, told):
    """The one that most do not agree with; of two, nobody knows which."""
    assert judge(found) == told


def test_two_ranks(tmp_path):
    """They burn at once; rank 0 writes what all have seen."""
    path = tmp_path / "burn.json"
    done = torchrun(["-m", "muster_perf.burn", "--seconds", "0.3", "-J", str(path)], 2)
    assert done.returncode == 0, done.stderr
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["side"] == 512
    assert [rank["wrong"] for rank in told["ranks"]] == [0, 0]
    assert all(rank["milliseconds"] > 0 for rank in told["ranks"])


def test_a_rank_that_computes_wrongly(tmp_path):
    """All ranks end with a status that says so, and name it."""
    script = tmp_path / "wrong.py"
    script.write_text(
        "import os, sys, torch\n"
        "from muster_perf import burn\n"
        "right = torch.matmul\n"
        "def wrong(a, b):\n"
        "    product = right(a, b)\n"
        "    product[5, 5] += 1\n"
        "    return product\n"
        "if os.environ['RANK'] == '2':\n"
        "    torch.matmul = wrong\n"
        "sys.exit(burn.main(['--seconds', '0.1']))\n",
        encoding="utf-8",
    )
    done = torchrun([str(script)], 3)
    assert done.returncode == 1
    assert "burn: rank 2: its products differ from the other ranks'" in done.stderr


def test_alone():
    """Without a launcher one process burns for itself."""
    words = [str(BIN / "python"), "-m", "muster_perf.burn", "--seconds", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# rank 0: 3 products, ")
