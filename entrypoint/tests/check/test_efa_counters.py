import pytest

from muster.check.efa_counters import LIMITS, Counters, grown, read, snapshot
from muster.check.finding import Here
from muster.settings import read_settings

ANY = [name for name, limit in LIMITS.items() if not limit]
RATES = {name: int(limit) for name, limit in LIMITS.items() if limit}


@pytest.fixture
def device(put):
    """Return a function that makes a device below /sys, its counters 0 but for those that are given."""

    def make(name: str, vendor: str = "0x1d0f", model: str = "0xefa2", **counters: int) -> None:
        folder = f"sys/class/infiniband/{name}"
        put(f"{folder}/device/vendor", f"{vendor}\n")
        put(f"{folder}/device/device", f"{model}\n")
        for counter in LIMITS:
            put(f"{folder}/ports/1/hw_counters/{counter}", f"{counters.get(counter, 0)}\n")

    return make


@pytest.fixture
def sys(roots) -> str:
    """Return this test's own /sys."""
    return str(roots / "sys")


def one(**counters: int) -> Counters:
    """Return one device's counters."""
    values = {("rdmap0s6", "1", name): counters.get(name, 0) for name in LIMITS}
    return Counters(("rdmap0s6",), values)


def test_counters_are_read_by_device_port_and_name(device, put, sys):
    """EFA by vendor and device; other adapters, and what is no number, are passed over."""
    device("rdmap0s6", rx_drops=7, retrans_bytes=123456789012)
    device("rdmap0s7", model="0xefa0")
    device("mlx5_0", vendor="0x15b3", model="0x101e", rx_drops=9)
    put("sys/class/infiniband/rdmap0s7/ports/1/hw_counters/rx_drops", "N/A (no permission)\n")
    found = read(sys)
    assert found.devices == ("rdmap0s6", "rdmap0s7")
    assert found.values["rdmap0s6", "1", "rx_drops"] == 7
    assert found.values["rdmap0s6", "1", "retrans_bytes"] == 123456789012
    assert ("rdmap0s7", "1", "rx_drops") not in found.values
    assert len(found.values) == 2 * len(LIMITS) - 1


def test_a_snapshot_is_this_hosts(device, roots, make_job):
    """Below the /sys that the checks look at."""
    device("rdmap0s6", rx_drops=7)
    here = Here(make_job(), read_settings({}), {}, 1, "full", sys=str(roots / "sys"))
    assert snapshot(here) == read(here.sys)
    assert snapshot(here).devices == ("rdmap0s6",)


@pytest.mark.parametrize("name", ANY)
def test_any_growth_of_an_error_is_a_warning(name):
    """One in an hour, too; what there was before doesn't count."""
    found = grown(one(**{name: 5}), one(**{name: 6}), 3600.0)
    assert found.status == "WARN"
    assert f"rdmap0s6 port 1: {name} +1" in found.evidence
    assert found.remedy
    assert grown(one(**{name: 5}), one(**{name: 5}), 3600.0).status == "PASS"


@pytest.mark.parametrize("name", RATES)
def test_what_is_sent_again_has_a_rate(name):
    """Some of it is normal: above so much in a second it is not."""
    limit = RATES[name]
    assert grown(one(), one(**{name: limit * 10}), 10.0).status == "PASS"
    found = grown(one(**{name: 3}), one(**{name: 3 + limit * 10 + 1}), 10.0)
    assert found.status == "WARN"
    assert found.evidence == f"EFA in 10 s: rdmap0s6 port 1: {name} +{limit * 10 + 1}, {limit}/s"


def test_a_device_that_was_reset_has_begun_at_0():
    """A smaller number is no negative growth."""
    assert grown(one(rx_drops=9), one(rx_drops=0), 10.0).status == "PASS"
    assert "+2" in grown(one(rx_drops=9), one(rx_drops=2), 10.0).evidence


def test_a_device_that_has_gone(device, sys, roots):
    """It was there before the ranks talked to each other."""
    device("rdmap0s6")
    before = read(sys)
    (roots / "sys/class/infiniband/rdmap0s6").rename(roots / "gone")
    found = grown(before, read(sys), 10.0)
    assert (found.status, found.evidence) == ("WARN", "EFA in 10 s: rdmap0s6 has gone")


def test_an_older_driver_has_fewer_counters():
    """What it has is judged; with none nothing is known."""
    few = Counters(("rdmap0s6",), {("rdmap0s6", "1", "rx_drops"): 0})
    assert grown(few, one(retrans_pkts=10**9), 10.0).status == "PASS"
    none = Counters(("rdmap0s6",))
    assert grown(none, none, 10.0).status == "UNKNOWN"


def test_hosts_without_efa(sys):
    """There is nothing to be looked at."""
    assert grown(read(sys), read(sys), 10.0).status == "SKIP"
    assert read("/nowhere") == Counters()


def test_many_devices_are_one_line():
    """The first four are named, the rest counted; a time of 0 s divides nothing."""
    devices = tuple(f"rdmap{i}" for i in range(32))
    values = {(device, "1", "retrans_pkts"): 0 for device in devices}
    after = Counters(devices, dict.fromkeys(values, 10**9))
    found = grown(Counters(devices, values), after, 0.0)
    assert found.status == "WARN"
    assert found.evidence.endswith("; 28 more")
    assert len(found.evidence) < 400
