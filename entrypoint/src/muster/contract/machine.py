"""What this host has: processors, GPUs, interfaces. Effects: looks at the machine."""

from __future__ import annotations

import fcntl
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence

from muster.model import Machine

_ROUTE_COLUMNS = 11
_LOOK_UP_S = 2.0
_DRIVER_S = 20.0
"""A driver that isn't kept loaded takes some seconds a GPU to begin."""
MORE_SHARED_MEMORY = (
    "`docker run --shm-size=1g`; for SageMaker's local modes "
    '"default-shm-size": "1g" in /etc/docker/daemon.json'
)
"""What gives a container a larger /dev/shm; SageMaker's own hosts have a large one."""
_GET_ADDRESS = 0x8915
_GET_MASK = 0x891B
"""SIOCGIFADDR and SIOCGIFNETMASK of linux/sockios.h."""


def look_at_machine(env: Mapping[str, str]) -> Machine:
    """The parts of this host that a plan needs. Never raises: what can't be seen isn't there."""
    return Machine(usable_cpus(), _visible_gpus(env), _interfaces(), shared_memory()[0])


def usable_cpus(cgroup: str = "/sys/fs/cgroup") -> int:
    """Processors that this container may use: its affinity mask, and its share of time.

    `docker run --cpus=2` leaves all processors visible and gives the time of two.
    """
    visible = len(os.sched_getaffinity(0))
    quota = processor_time(cgroup)
    return visible if quota is None else max(1, min(visible, math.ceil(quota)))


def processor_time(cgroup: str) -> float | None:
    """The time a second that the cgroup has, in seconds; None without a limit."""
    v2 = _words(f"{cgroup}/cpu.max")
    v1 = [
        *_words(f"{cgroup}/cpu/cpu.cfs_quota_us"),
        *_words(f"{cgroup}/cpu/cpu.cfs_period_us"),
    ]
    quota, period, *_ = [*(v2 or v1), "", ""]
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None  # `max` in version 2, -1 in version 1.
    return int(quota) / int(period)


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except (OSError, UnicodeDecodeError):
        return []


def shared_memory(folder: str = "/dev/shm") -> tuple[int, int]:
    """Size and free space of /dev/shm in bytes; 0 where there is none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def interface_towards(*hosts: str) -> str:
    """The interface over which the kernel would reach the first of `hosts` that it can.

    This host's own name counts too: the others reach it at the address that it resolves to.
    Nothing is sent. Where no name resolves within two seconds, or all lead to the loopback, that
    of the default route; empty when there is none either.

    Args:
        hosts: names or IPv4 addresses, the best first.
    """
    for address in filter(None, _resolve(hosts)):
        own = _source_towards(address)
        for name in _interfaces():
            if name != "lo" and own and address_of(name) == own:
                return name
    return default_interface()


def _source_towards(address: str) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _resolve(hosts: Sequence[str]) -> list[str]:
    """Addresses, empty where none came in time."""
    # In threads: a dead name server holds a look-up for many seconds, deaf to signals.
    found = [""] * len(hosts)

    def look_up(place: int) -> None:
        try:
            found[place] = socket.gethostbyname(hosts[place])
        except (OSError, UnicodeError):
            return

    threads = [
        threading.Thread(target=look_up, args=(place,), daemon=True)
        for place, host in enumerate(hosts)
        if host
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _LOOK_UP_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(found)


def address_of(interface: str) -> str:
    """Its IPv4 address (https://man7.org/linux/man-pages/man7/netdevice.7.html), or nothing."""
    return _ask_interface(interface, _GET_ADDRESS)


def network_of(interface: str) -> str:
    """Its IPv4 network as ADDRESS/BITS, or nothing."""
    address, mask = address_of(interface), _ask_interface(interface, _GET_MASK)
    if not address or not mask:
        return ""
    address_bits, mask_bits = (
        int.from_bytes(socket.inet_aton(text), "big") for text in (address, mask)
    )
    network = socket.inet_ntoa((address_bits & mask_bits).to_bytes(4, "big"))
    return f"{network}/{mask_bits.bit_count()}"


def _ask_interface(interface: str, what: int) -> str:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            answer = fcntl.ioctl(probe.fileno(), what, request)
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])


def default_interface(table: str = "/proc/net/route") -> str:
    """The interface of the default route (https://man7.org/linux/man-pages/man5/proc_net.5.html)."""
    words = _words(table)
    rows = [words[i : i + _ROUTE_COLUMNS] for i in range(0, len(words), _ROUTE_COLUMNS)]
    return next((row[0] for row in rows if row[1:2] == ["00000000"]), "")


def _visible_gpus(env: Mapping[str, str]) -> int:
    """GPUs that a framework in this container can use.

    CUDA_VISIBLE_DEVICES decides when it is set, as it does for CUDA: the list ends at
    the first entry that is no device. NVIDIA_VISIBLE_DEVICES is not read: it is `void`
    on SageMaker's CPU hosts and says nothing on others (contract.md 1.5).
    """
    present = _nvml_count()
    chosen = env.get("CUDA_VISIBLE_DEVICES")
    if present == 0 or chosen is None:
        return present
    count = 0
    for entry in chosen.split(","):
        name = entry.strip()
        known = name.isdigit() and int(name) < present
        if not known and not name.startswith(("GPU-", "MIG-")):
            break
        count += 1
    return count


def _nvml_count(control: str = "/dev/nvidiactl") -> int:
    """GPUs that the driver counts; none where it has not answered in time."""
    # The driver's control device is missing on every CPU host: nothing is imported there.
    if not os.path.exists(control):
        return 0
    # A wedged driver answers no call, for ever. The thread then stays; nobody waits for it.
    found = [0]

    def count() -> None:
        try:
            import pynvml  # noqa: PLC0415  (slow, and useless without a GPU)

            pynvml.nvmlInit()
            try:
                found[0] = int(pynvml.nvmlDeviceGetCount())
            finally:
                pynvml.nvmlShutdown()
        except Exception:  # noqa: BLE001  (a broken driver is the checks' finding, not a crash here)
            return

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    thread.join(_DRIVER_S)
    return found[0]


def _interfaces() -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir("/sys/class/net")))
    except OSError:
        return ()
