import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.contract import hyperparameters
from muster.errors import LaunchError, PlanError
from muster.model import Channel, Code, Job, Plan
from muster.plan import Facts, make_plan
from muster.settings import read_settings

CODE = Code("/opt/ml/code", "train.py", ("/venv/python3", "/opt/ml/code/train.py"))
SHIM = ("/muster/python", "-I", "-m", "muster.launch.shim", "--")
TWO = ("algo-1", "algo-2")
DEFAULTS = {
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "8",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
}


@pytest.fixture
def plan(make_job: Callable[..., Job]) -> Callable[..., Plan]:
    """Return a function from hyperparameters, variables and the job's parts to a plan."""

    def make(
        raw: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        facts: Facts | None = None,
        inherited: dict[str, str] | None = None,
        code: Code = CODE,
        **changes: Any,
    ) -> Plan:
        split = hyperparameters.split(raw or {})
        user = {item.key: item for item in split.user}
        job = make_job(user=user, reserved=split.reserved, **changes)
        facts = facts or Facts("/venv/torchrun", SHIM, 7777)
        return make_plan(job, code, read_settings(env or {}), facts, inherited or {})

    return make


def test_torchrun_on_one_host(plan):
    """One host: static rendezvous on the loopback address, shim, script, its arguments."""
    made = plan({"lr": "1e-3", "note": "a b"}, gpus=4, program_args=("--resume",))
    assert made.argv == (
        "/venv/torchrun",
        "--nnodes=1",
        "--nproc-per-node=4",
        "--node-rank=0",
        "--rdzv-backend=static",
        "--master-addr=127.0.0.1",
        "--master-port=7777",
        "--no-python",
        *SHIM,
        "/venv/python3",
        "/opt/ml/code/train.py",
        "--lr",
        "1e-3",
        "--note",
        "a b",
        "--resume",
    )
    assert (made.launcher, made.cwd) == ("torchrun", "/opt/ml/code")
    assert (made.node_rank, made.nproc, made.world_size) == (0, 4, 4)


@pytest.mark.parametrize(("host", "rank"), [("algo-1", 0), ("algo-2", 1)])
def test_torchrun_on_two_hosts(plan, host: str, rank: int):
    """Two hosts differ in their node rank alone, and meet at the first."""
    made = plan(env={"MUSTER_NPROC": "2"}, hosts=TWO, current_host=host)
    assert made.argv == (
        "/venv/torchrun",
        "--nnodes=2",
        "--nproc-per-node=2",
        f"--node-rank={rank}",
        "--rdzv-backend=static",
        "--master-addr=algo-1",
        "--master-port=7777",
        "--no-python",
        *SHIM,
        "/venv/python3",
        "/opt/ml/code/train.py",
    )
    assert (made.host, made.hosts) == (host, TWO)
    assert (made.node_rank, made.nproc, made.world_size) == (rank, 2, 4)


def test_plain(plan):
    """Plain is the script under the shim, once a host, however many GPUs there are."""
    made = plan({"lr": "1"}, {"MUSTER_LAUNCHER": "plain"}, hosts=TWO, gpus=8)
    assert made.argv == (*SHIM, *CODE.command, "--lr", "1")
    assert (made.nproc, made.world_size) == (1, 2)


@pytest.mark.parametrize(
    ("env", "reserved", "launcher", "source"),
    [
        ({}, {}, "torchrun", "the default"),
        ({"MUSTER_DEFAULT_LAUNCHER": "plain"}, {}, "plain", "the default"),
        (
            {"MUSTER_DEFAULT_LAUNCHER": "plain"},
            {"sagemaker_torch_distributed_enabled": "true"},
            "torchrun",
            "sagemaker_torch_distributed_enabled",
        ),
        (
            {"MUSTER_DEFAULT_LAUNCHER": "plain"},
            {
                "sagemaker_torch_distributed_enabled": "true",
                "sagemaker_distributed_dataparallel_enabled": "true",
            },
            "torchrun",
            (
                "torchrun from sagemaker_torch_distributed_enabled wins over mpirun from "
                "sagemaker_distributed_dataparallel_enabled"
            ),
        ),
        (
            {"MUSTER_DEFAULT_LAUNCHER": "plain"},
            {"sagemaker_torch_distributed_enabled": "false"},
            "plain",
            "the default",
        ),
        (
            {"MUSTER_LAUNCHER": "plain"},
            {"sagemaker_torch_distributed_enabled": "true"},
            "plain",
            (
                "plain from MUSTER_LAUNCHER wins over torchrun from "
                "sagemaker_torch_distributed_enabled"
            ),
        ),
        (
            {"MUSTER_LAUNCHER": "plain"},
            {"sagemaker_mpi_enabled": "true"},
            "plain",
            "plain from MUSTER_LAUNCHER wins over mpirun from sagemaker_mpi_enabled",
        ),
    ],
)
def test_who_chooses_the_launcher(plan, env: Any, reserved: Any, launcher: str, source: str):
    """The job's variable wins over the SDK's distribution, which wins over the image; where two
    of them disagree, both are told."""
    made = plan(reserved, env)
    assert made.launcher == launcher
    told = f"launcher {source}" if " wins over " in source else f"launcher {launcher} ({source})"
    assert told in made.notes


@pytest.mark.parametrize(
    ("env", "reserved", "message"),
    [
        ({"MUSTER_DEFAULT_LAUNCHER": "direct"}, {}, "unknown launcher 'direct'"),
        ({"MUSTER_LAUNCHER": "torchrum"}, {}, r"unknown launcher 'torchrum' \(MUSTER_LAUNCHER\)"),
        ({"MUSTER_LAUNCHER": "TORCHRUN"}, {}, "unknown launcher 'TORCHRUN'"),
    ],
)
def test_launchers_that_are_refused(plan, env: Any, reserved: Any, message: str):
    """With who asked for it, and those that there are."""
    with pytest.raises(PlanError, match=message) as error:
        plan(reserved, env)
    for word in ("torchrun", "plain", "MUSTER_LAUNCHER"):
        assert word in error.value.remedy


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "cluster"])
def test_options_of_mpirun_under_another_launcher(plan, launcher: str):
    """They are nobody's: that is told, and nothing of them is set."""
    facts = Facts("/venv/torchrun", SHIM, 7777, horovodrun="/venv/horovodrun")
    env = {"MUSTER_LAUNCHER": launcher, "MUSTER_MPI_OPTIONS": "-x NCCL_DEBUG=INFO"}
    made = plan(env=env, facts=facts)
    assert "NCCL_DEBUG" not in made.env
    note = f"MUSTER_MPI_OPTIONS is not used: it is for mpirun, and the launcher is {launcher}"
    assert note in made.notes
    assert not any("set by mpirun's options" in note for note in made.notes)


@pytest.mark.parametrize("entry", ["run.sh", "start"])
def test_a_script_that_starts_ranks_itself(plan, entry: str):
    """An entry point that is no Python file is run once a host, unless the job names a launcher."""
    code = Code("/opt/ml/code", entry, (f"/opt/ml/code/{entry}",), is_python=False)
    made = plan(code=code, hosts=TWO, gpus=4)
    assert (made.launcher, made.nproc, made.world_size) == ("cluster", 1, 8)
    assert any(note.startswith("ranks a host, as the script is told: 4 (") for note in made.notes)
    assert made.argv == (*SHIM, f"/opt/ml/code/{entry}")
    wanted = {"NODE_RANK": "0", "NNODES": "2", "NPROC_PER_NODE": "4", "MASTER_ADDR": "algo-1"}
    assert made.rank_env.items() >= wanted.items()
    assert made.hostfile == "algo-1 slots=4\nalgo-2 slots=4\n"
    # It may call mpirun, which refuses to run as root without a word.
    assert made.env["OMPI_ALLOW_RUN_AS_ROOT"] == made.env["PRTE_ALLOW_RUN_AS_ROOT"] == "1"
    for env in ({"MUSTER_LAUNCHER": "torchrun"}, {"MUSTER_LAUNCHER": "plain"}):
        assert plan(env=env, code=code).argv[-1] == f"/opt/ml/code/{entry}"
    assert plan({"sagemaker_torch_distributed_enabled": "true"}, code=code).launcher == "torchrun"


def test_no_torchrun_is_an_error(plan):
    """Without torchrun on PATH nothing is started, and the way out is named."""
    with pytest.raises(PlanError, match="no torchrun on PATH") as error:
        plan(facts=Facts(None, SHIM, 7777))
    assert "MUSTER_LAUNCHER=plain" in error.value.remedy
    assert plan(env={"MUSTER_LAUNCHER": "plain"}, facts=Facts(None, SHIM, 7777)).nproc == 1


@pytest.mark.parametrize(
    ("env", "sent", "gpus", "nproc"),
    [
        ({"MUSTER_NPROC": "3"}, "5", 8, 3),
        ({}, "5", 8, 5),
        ({}, '"5"', 8, 5),
        ({"MUSTER_NPROC": ""}, None, 8, 8),
        ({}, None, 0, 1),
    ],
)
def test_ranks_a_host(plan, env: Any, sent: str | None, gpus: int, nproc: int):
    """The variable wins, then processes_per_host, then the GPUs, then one."""
    raw = {} if sent is None else {"sagemaker_mpi_num_of_processes_per_host": sent}
    assert plan(raw, env, gpus=gpus).nproc == nproc


@pytest.mark.parametrize("sent", ["0", "-1", "1.5", "many", "", "²"])
def test_ranks_a_host_that_make_no_sense(plan, sent: str):
    """processes_per_host must be a whole number from 1; the error shows what was sent."""
    with pytest.raises(PlanError, match=r"sagemaker_mpi_num_of_processes_per_host='.*' is not"):
        plan({"sagemaker_mpi_num_of_processes_per_host": sent})


@pytest.mark.parametrize(
    ("addresses", "address"),
    [
        ("algo-1=10.0.0.7,algo-2=10.0.0.8", "10.0.0.7"),
        ("algo-2=10.0.0.8", "algo-1"),
        ("", "algo-1"),
    ],
)
def test_where_the_ranks_meet(plan, addresses: str, address: str):
    """The leader's given address is used, else its name: on both hosts the same."""
    for host in TWO:
        made = plan(env={"MUSTER_ADDRESSES": addresses}, hosts=TWO, current_host=host)
        assert made.master_addr == address
        assert made.rank_env["SM_MASTER_ADDR"] == address


def test_one_host_meets_itself(plan):
    """One host never needs its own name resolved, even when an address is given for it."""
    assert plan(env={"MUSTER_ADDRESSES": "algo-1=10.0.0.7"}).master_addr == "127.0.0.1"


def test_the_port_of_the_facts(plan):
    """The port that was found is the launcher's and the script's."""
    made = plan(facts=Facts("/venv/torchrun", SHIM, 29511))
    assert "--master-port=29511" in made.argv
    assert (made.master_port, made.rank_env["SM_MASTER_PORT"]) == (29511, "29511")


@pytest.mark.parametrize(
    ("nproc", "threads"), [("1", "8"), ("2", "4"), ("3", "2"), ("8", "1"), ("20", "1")]
)
def test_threads_of_a_rank(plan, nproc: str, threads: str):
    """The host's processors are shared out among its ranks, at least one each."""
    assert plan(env={"MUSTER_NPROC": nproc}).env["OMP_NUM_THREADS"] == threads


def test_threads_of_plain(plan):
    """A plain process has all processors: it is alone on its host."""
    assert plan(env={"MUSTER_LAUNCHER": "plain"}, gpus=8).env["OMP_NUM_THREADS"] == "8"


def test_defaults_on_one_host(plan):
    """One host gets no interface variables, and nothing that tunes NCCL."""
    assert plan().env == DEFAULTS


def test_defaults_on_two_hosts(plan):
    """Several hosts are told the interface between them; an unknown one is left out."""
    named = {
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    assert plan(hosts=TWO).env == DEFAULTS | named
    assert not set(plan(hosts=TWO, interface="").env) & set(named)


@pytest.mark.parametrize("value", ["", "0", "eth7"])
def test_the_users_environment_wins(plan, value: str):
    """A variable that is set, be it to nothing, is neither changed nor said to be set."""
    names = [
        "PYTHONUNBUFFERED",
        "OMP_NUM_THREADS",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "NCCL_SOCKET_IFNAME",
    ]
    made = plan(hosts=TWO, inherited=dict.fromkeys(names, value))
    assert made.env == {}
    assert not set(made.rank_env) & set(names)


@pytest.mark.parametrize(("switch", "extended"), [("", True), ("1", True), ("0", False)])
def test_hosts_are_excepted_from_a_proxy(plan, switch: str, *, extended: bool):
    """Where there is a proxy the hosts are not behind it, and that is told; it can be turned off."""
    env = {"MUSTER_EXTEND_NO_PROXY": switch}
    made = plan(hosts=TWO, env=env, inherited={"https_proxy": "http://proxy:8080"})
    assert ("NO_PROXY" in made.env) == ("no_proxy" in made.env) == extended
    assert ("NO_PROXY extended by the job's hosts" in made.notes) == extended


def test_ranks_are_counted_over_uneven_hosts(plan):
    """What the hosts have told each other is the world, and another port than the wanted is told."""
    facts = Facts("/venv/torchrun", SHIM, 29511, nprocs=(8, 4))
    made = plan(hosts=TWO, env={"MUSTER_NPROC": "8"}, facts=facts)
    assert (made.nproc, made.world_size) == (8, 12)
    assert "port 7777 is taken: the ranks meet at another one" in made.notes


def test_defaults_are_told(plan):
    """What was set for the user is in the notes, with its value."""
    values = "PYTHONUNBUFFERED=1 OMP_NUM_THREADS=8 TORCH_NCCL_ASYNC_ERROR_HANDLING=1"
    assert f"set because unset: {values}" in plan().notes


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "horovodrun", "cluster", "plain"])
@pytest.mark.parametrize(
    ("inherited", "wanted"),
    [({}, "1"), ({"NCCL_ASYNC_ERROR_HANDLING": "3"}, "3")],
    ids=["unset", "by its old name"],
)
def test_an_error_of_nccl_means_the_same_everywhere(plan, launcher, inherited, wanted):
    """The launcher torchrun alone would set it in its ranks, also over the old name: with the others a
    lost peer would hang the ranks.
    """
    programs = {"mpirun": "/bin/mpirun", "mpi_major": 4, "horovodrun": "/venv/horovodrun"}
    facts = Facts("/venv/torchrun", SHIM, 7777, **programs)
    made = plan(env={"MUSTER_LAUNCHER": launcher}, facts=facts, inherited=inherited, hosts=TWO)
    assert made.env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == wanted


def test_variables_of_the_ranks(plan):
    """Beside the job's SM_* a rank finds where its code is, and is able to import from there."""
    env = plan({"lr": "1"}, program_args=("--resume",)).rank_env
    assert env["SM_HP_LR"] == "1"
    assert env["SM_MODULE_DIR"] == env["SM_SOURCE_DIR"] == "/opt/ml/code"
    assert env["SM_USER_ENTRY_POINT"] == env["SM_ENTRY_SCRIPT"] == "train.py"
    assert env["SM_MODULE_NAME"] == "train"
    assert json.loads(env["SM_USER_ARGS"]) == ["--lr", "1", "--resume"]
    assert env["PYTHONPATH"] == "/opt/ml/code"


@pytest.mark.parametrize(
    ("inherited", "path"),
    [("/mine:/too", "/opt/ml/code:/mine:/too"), ("", "/opt/ml/code")],
)
def test_the_users_python_path_stays(plan, inherited: str, path: str):
    """The code's folder goes in front of the user's PYTHONPATH; nothing is dropped from it."""
    assert plan(inherited={"PYTHONPATH": inherited}).rank_env["PYTHONPATH"] == path


def test_the_jobs_notes_stay(plan):
    """What the contract found odd is still told by the plan."""
    assert plan(notes=("odd",)).notes[0] == "odd"


@pytest.mark.parametrize(("nproc", "told"), [("1", False), ("4", True)])
def test_ranks_that_share_a_pipe_are_told(plan, nproc: str, told: bool):
    """Several ranks that read one FIFO would each get a part of the data without knowing."""
    sent = (Channel("train", "/opt/ml/input/data/train", "Pipe"),)
    notes = plan(env={"MUSTER_NPROC": nproc}, channels=sent).notes
    said = "Pipe mode (train): 4 ranks share one FIFO: let one rank read, or use FastFile"
    assert (said in notes) == told


def test_a_rank_finds_the_mode_of_each_channel(plan):
    """SM_CHANNEL_TRAIN is a folder or the stem of FIFOs: a variable tells which. Names may be
    anything, so it is one for all."""
    sent = tuple(
        Channel(name, f"/opt/ml/input/data/{name}", mode)
        for name, mode in (("train", "Pipe"), ("train_mode", "FastFile"), ("my-data", "File"))
    )
    env = plan(channels=sent).rank_env
    assert json.loads(env["MUSTER_CHANNEL_MODES"]) == {
        "train": "Pipe",
        "train_mode": "FastFile",
        "my-data": "File",
    }
    assert env["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert env["SM_CHANNEL_TRAIN_MODE"] == "/opt/ml/input/data/train_mode"
    assert json.loads(plan().rank_env["MUSTER_CHANNEL_MODES"]) == {}


def test_shared_names_are_told(plan):
    """Two keys of one variable are both given as arguments, and the log says which has it."""
    notes = plan({"lr": "1", "LR": "2"}).notes
    assert "hyperparameters LR and lr share SM_HP_LR: it has that of lr" in notes


def test_two_numbers_of_ranks_are_told(plan):
    """The variable wins over processes_per_host, and the log has both."""
    sent = {"sagemaker_mpi_num_of_processes_per_host": "8"}
    notes = plan(sent, {"MUSTER_NPROC": "2"}).notes
    lost = "not the 8 of sagemaker_mpi_num_of_processes_per_host"
    assert f"ranks a host: 2 (MUSTER_NPROC, {lost})" in notes


@pytest.mark.parametrize("allowed", [True, False])
def test_more_ranks_than_gpus(plan, allowed: bool):
    """Eight ranks on four GPUs are refused before anything runs, unless that is meant."""
    env = {"MUSTER_NPROC": "8"} | ({"MUSTER_OVERSUBSCRIBE": "1"} if allowed else {})
    if allowed:
        assert plan(env=env, gpus=4).nproc == 8
    else:
        with pytest.raises(PlanError, match=r"8 ranks a host \(MUSTER_NPROC\) on 4 visible GPUs"):
            plan(env=env, gpus=4)


def test_a_port_that_cannot_be_used(plan):
    """A launcher that needs the port says what is wrong with it, where, and what to do; `plain`
    needs none."""
    facts = Facts("/venv/torchrun", SHIM, 7777, port_trouble="is taken")
    with pytest.raises(LaunchError, match=r"port 7777.* is taken \(host algo-1\)") as error:
        plan(facts=facts, hosts=TWO)
    assert "MUSTER_MASTER_PORT" in error.value.remedy
    assert plan(env={"MUSTER_LAUNCHER": "plain"}, facts=facts, hosts=TWO).launcher == "plain"
