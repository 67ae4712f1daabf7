from dataclasses import replace

from muster.banner import banner
from muster.model import Channel, Plan


def plan(*argv: str, hosts: tuple[str, ...] = ("algo-1", "algo-2")) -> Plan:
    return Plan(
        launcher="torchrun",
        host=hosts[1],
        hosts=hosts,
        node_rank=1,
        nproc=2,
        world_size=2 * len(hosts),
        master_addr="algo-1",
        master_port=7777,
        argv=argv,
        cwd="/opt/ml/code",
        env={"TOKEN": "hunter2"},
        rank_env={"SM_HP_HF_TOKEN": "hunter2"},
        notes=("launcher torchrun (the image's default)",),
    )


def test_what_it_tells(make_job):
    """The banner tells job, host, place, world, meeting point, command, and what was defaulted."""
    lines = banner(make_job(name="pets"), plan("torchrun", "my train.py", "--lr", "1")).splitlines()
    assert "job pets, host algo-2 (2 of 2: algo-1, algo-2)" in lines[0]
    assert lines[1:] == [
        "world size 4, ranks meet at algo-1:7777",
        "runs: torchrun 'my train.py' --lr 1",
        "launcher torchrun (the image's default)",
    ]


def test_a_script_that_is_no_rank(make_job):
    """With the launcher cluster the script runs once a host, and the world is what it is told of."""
    text = banner(make_job(), replace(plan("muster-rank", "run.sh"), launcher="cluster"))
    world = "one script a host; for the ranks that it starts: world size 4, algo-1:7777"
    assert text.splitlines()[1] == world


def test_channels_and_their_modes(make_job):
    """The data that the job was sent is named, with the mode in which it comes."""
    sent = (Channel("train", "/d/train", "File"), Channel("events", "/d/events", "Pipe"))
    assert "channels: train (File), events (Pipe)" in banner(make_job(channels=sent), plan("x"))
    many = tuple(Channel(f"c{i}", "/d", "File") for i in range(20))
    assert "c7 (File) …" in banner(make_job(channels=many), plan("x"))


def test_many_hosts(make_job):
    """Of very many hosts the first are named and the rest counted."""
    hosts = tuple(f"algo-{number}" for number in range(1, 501))
    text = banner(make_job(), plan(hosts=hosts))
    assert "2 of 500: algo-1, algo-2" in text
    assert "algo-8 …" in text
    assert "algo-9" not in text


def test_it_shows_no_secret(make_job):
    """Neither arguments nor variables of the plan betray a secret."""
    argv = ["train.py", "--hf_token", "hunter2", "--index", "https://me:hunter2@pypi.example"]
    text = banner(make_job(), plan(*argv))
    assert "hunter2" not in text
    assert "--hf_token" in text


def test_a_log_gets_fifteen_lines_and_a_short_command(make_job):
    """However many remarks and hyperparameters a job has; `muster plan` shows all of them."""
    notes = tuple(f"note {i}" for i in range(40))
    long = replace(plan("python3", "train.py", "x" * 5000), notes=notes)
    shown = banner(make_job(), long)
    assert len(shown.splitlines()) == 15
    assert shown.splitlines()[-1] == "… and 29 lines more (muster plan)"
    assert len(shown) < 2000
    full = banner(make_job(), long, full=True)
    assert "x" * 5000 in full
    assert "note 39" in full


def test_a_note_shows_no_secret(make_job):
    """A conflict is told with both values, and an address among them may hold a password."""
    notes = ("submit directory https://me:hunter2@x/a wins over https://me:hunter2@x/b",)
    assert "hunter2" not in banner(make_job(), replace(plan("train.py"), notes=notes))
