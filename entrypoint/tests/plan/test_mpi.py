"""mpirun's command, and the options that users add to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.contract import hyperparameters
from muster.errors import PlanError
from muster.model import Code, Job, Plan
from muster.plan import Facts, make_plan
from muster.plan.mpi_options import read_options
from muster.settings import read_settings

CODE = Code("/opt/ml/code", "train.py", ("/venv/python3", "/opt/ml/code/train.py"))
HOSTS = ("algo-1", "algo-2", "algo-3")
KEY = "sagemaker_mpi_custom_mpi_options"


@pytest.fixture
def plan(make_job: Callable[..., Job]) -> Callable[..., Plan]:
    """Return a function to the plan of a host of an MPI job."""

    def make(
        options: str = "",
        major: int = 4,
        env: dict[str, str] | None = None,
        inherited: dict[str, str] | None = None,
        **changes: Any,
    ) -> Plan:
        sent = {"sagemaker_mpi_enabled": "true", KEY: options, "lr": "0.1"}
        split = hyperparameters.split(sent)
        user = {item.key: item for item in split.user}
        job = make_job(user=user, reserved=split.reserved, **{"hosts": HOSTS, "gpus": 2, **changes})
        facts = Facts(
            *(None, ("shim",), 7777),
            mpirun="/bin/mpirun",
            mpi_major=major,
            cidr="10.0.0.0/16",
            rsh=("py", "rsh"),
        )
        return make_plan(job, CODE, read_settings(env or {}), facts, inherited or {})

    return make


def parameters(plan: Plan) -> dict[str, str]:
    """The MCA parameters on the command line."""
    words = plan.argv
    at = [i for i, word in enumerate(words) if word in ("--mca", "--prtemca", "-mca")]
    keys = [words[i + 1] for i in at]
    assert len(keys) == len(set(keys)), "a parameter twice"
    return {words[i + 1]: words[i + 2] for i in at}


def test_the_first_host_starts_all(plan):
    """Explicit slots, no binding, the interface by its network, and muster-rsh in ssh's place."""
    made = plan()
    assert made.argv[:7] == (
        *("/bin/mpirun", "-np", "6", "--host", "algo-1:2,algo-2:2,algo-3:2"),
        *("--bind-to", "none"),
    )
    assert made.argv[-1] == "shim"
    assert made.rank_argv == (*CODE.command, "--lr", "0.1")
    assert parameters(made) == {
        "btl_vader_single_copy_mechanism": "none",
        "plm": "rsh",
        "plm_rsh_agent": "py rsh",
        "plm_rsh_no_tree_spawn": "1",
        "plm_rsh_num_concurrent": "128",
        "orte_leave_session_attached": "1",
        "orte_abort_on_non_zero_status": "1",
        "btl_tcp_if_include": "10.0.0.0/16",
        "oob_tcp_if_include": "10.0.0.0/16",
    }
    assert made.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_other_hosts_wait(plan):
    """They start nothing, and tell their ranks what to run."""
    made = plan(current_host="algo-2")
    assert made.argv == ()
    assert made.rank_argv == (*CODE.command, "--lr", "0.1")
    assert made.remote
    assert made.rank_env["MASTER_ADDR"] == "algo-1"
    assert (made.rank_env["WORLD_SIZE"], made.rank_env["LOCAL_WORLD_SIZE"]) == ("6", "2")


def test_one_host_needs_no_agent(plan):
    """Nothing but the ranks is started, and nothing listens to other hosts."""
    assert parameters(plan(hosts=("algo-1",))) == {
        "btl_vader_single_copy_mechanism": "none",
        "plm": "isolated",
    }


def test_open_mpi_5_has_other_names(plan):
    """None of ORTE's: PRRTE would take them without a word and do nothing."""
    found = parameters(plan(major=5))
    assert not [key for key in found if "orte" in key or "rsh" in key or "vader" in key]
    assert found["plm_ssh_agent"] == "py rsh"


def test_many_hosts_start_at_once(plan):
    """Open MPI 4 crashes when fewer may start at one time than there are."""
    hosts = tuple(f"algo-{i}" for i in range(1, 301))
    assert parameters(plan(hosts=hosts))["plm_rsh_num_concurrent"] == "300"


def test_addresses_stand_for_names_that_do_not_resolve(plan):
    """Mpirun gets the addresses, and the harness knows whose they are."""
    env = {"MUSTER_ADDRESSES": "algo-1=10.0.0.1,algo-2=10.0.0.2,algo-3=10.0.0.3"}
    made = plan(env=env)
    assert "10.0.0.1:2,10.0.0.2:2,10.0.0.3:2" in made.argv
    assert made.names["10.0.0.2"] == "algo-2"


@pytest.mark.parametrize(
    ("options", "gone", "found"),
    [
        (
            "--mca btl_tcp_if_exclude lo,docker0",
            "btl_tcp_if_include",
            ("btl_tcp_if_exclude", "lo,docker0"),
        ),
        ("-mca btl_tcp_if_include eth1", "", ("btl_tcp_if_include", "eth1")),
        ("-mca oob_tcp_if_exclude lo", "oob_tcp_if_include", ("oob_tcp_if_exclude", "lo")),
        (
            "--mca btl_vader_single_copy_mechanism cma",
            "",
            ("btl_vader_single_copy_mechanism", "cma"),
        ),
    ],
)
def test_a_users_parameter_takes_the_place_of_ours(plan, options, gone, found):
    """Open MPI refuses an include and an exclude list at once, and a parameter twice."""
    made = parameters(plan(options))
    assert made.get(found[0]) == found[1]
    assert gone not in made


def test_what_the_environment_sets_is_not_set_again(plan):
    """OMPI_MCA_btl_tcp_if_exclude in the job's environment is the user's choice as well."""
    made = plan(inherited={"OMPI_MCA_btl_tcp_if_exclude": "docker0", "OMPI_MCA_plm": "rsh"})
    assert not {"btl_tcp_if_include", "plm"} & parameters(made).keys()


@pytest.mark.parametrize("option", ["--bind-to core", "--map-by node", "-bind-to core"])
def test_binding_and_mapping_are_the_users(plan, option):
    """Said once."""
    words = [word.lstrip("-") for word in plan(option).argv]
    assert words.count(option.split()[0].lstrip("-")) == 1


def test_variables_are_on_no_command_line(plan):
    """-x and the SDK's --NCCL_DEBUG become variables of every host; the rest stays as it is."""
    made = plan(
        "-x FOO='a b' --NCCL_DEBUG=WARN -verbose -x HOME -x ABSENT", inherited={"HOME": "/h"}
    )
    assert {name: made.env.get(name) for name in ("FOO", "NCCL_DEBUG", "HOME", "ABSENT")} == {
        "FOO": "a b",
        "NCCL_DEBUG": "WARN",
        "HOME": "/h",
        "ABSENT": None,
    }
    assert "-verbose" in made.argv
    assert "-x" not in made.argv
    assert "set by mpirun's options: FOO, NCCL_DEBUG, HOME" in made.notes
    assert not any("a b" in note for note in made.notes)


def test_musters_own_options_win(plan):
    """MUSTER_MPI_OPTIONS is for jobs whose SDK sends none, and for those who want another."""
    made = plan("-x NCCL_DEBUG=INFO", env={"MUSTER_MPI_OPTIONS": "-x NCCL_DEBUG=VERSION"})
    assert made.env["NCCL_DEBUG"] == "VERSION"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("-hostfile /tmp/h", "-hostfile"),
        ("-host algo-1", "-host"),
        ("-H algo-1", "-H"),
        ("-h", "-h"),
        ("--help", "--help"),
        ("-V", "-V"),
        ("-np 3", "-np"),
        ("--NCCL=X", "--NCCL=X"),
        ("/bin/true", "/bin/true"),
        ("-verbose --", "--"),
        ("-x", "-x"),
        ("-mca btl", "-mca"),
        ("-x SM_CURRENT_HOST", "-x SM_CURRENT_HOST"),
        ("-mca orte_abort_on_non_zero_status 0", "orte_abort_on_non_zero_status 0"),
        ("-mca plm_rsh_agent ssh", "plm_rsh_agent"),
        ("-x FOO='a b", "No closing quotation"),
    ],
)
def test_options_that_are_refused(plan, text, named):
    """Each is named with where it came from; none makes a job that did nothing a success."""
    with pytest.raises(PlanError) as error:
        plan(text)
    assert named in error.value.what
    assert KEY in error.value.what


def test_abort_on_non_zero_may_be_said(plan):
    """It is what is done anyway."""
    assert (
        parameters(plan("-mca orte_abort_on_non_zero_status 1"))["orte_abort_on_non_zero_status"]
        == "1"
    )


def test_no_options_are_no_options():
    """An empty text, as the SDK sends it by default."""
    assert read_options("", KEY, {}).words == ()


def test_no_open_mpi_is_an_error(make_job):
    """Another MPI's mpirun has other options: the message names images that have the right one."""
    job = make_job(reserved={"sagemaker_mpi_enabled": "true"})
    with pytest.raises(PlanError, match="no mpirun of Open MPI") as error:
        make_plan(job, CODE, read_settings({}), Facts(None, ("shim",), 7777), {})
    assert "muster/smddp" in error.value.remedy


def test_replacing_the_harness_is_for_one_host(plan):
    """MUSTER_EXEC=1 leaves nobody who could start the other hosts' ranks."""
    with pytest.raises(PlanError, match="MUSTER_EXEC=1"):
        plan(env={"MUSTER_EXEC": "1"})
    made = plan(env={"MUSTER_EXEC": "1"}, hosts=("algo-1",))
    assert made.argv[-4:] == (*CODE.command, "--lr", "0.1")


def test_uneven_hosts_have_their_own_slots(make_job):
    """Groups with other instances: mpirun can, and the world is their sum."""
    split = hyperparameters.split({"sagemaker_mpi_enabled": "true"})
    job = make_job(reserved=split.reserved, hosts=HOSTS, gpus=8)
    facts = Facts(*(None, ("shim",), 7777), nprocs=(8, 4, 2), mpirun="/bin/mpirun", mpi_major=4)
    made = make_plan(job, CODE, read_settings({}), facts, {})
    assert made.argv[1:5] == ("-np", "14", "--host", "algo-1:8,algo-2:4,algo-3:2")
