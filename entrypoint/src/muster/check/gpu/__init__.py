"""The checks of GPUs, by NVML.

probe.py      asks NVML everything, in a process of its own
asking.py     starts the probe, once a host, and bounds its time
facts.py      what it has told
visible.py    which GPUs the job uses
judging.py    from a rule for one GPU to a finding for the host
health.py links.py state.py fit.py limits.py   the rules
looks.py      what each check does
rows.py remedies.py presence.py   the checks, and what CPU jobs need of them
growth.py     what NVLinks repeat between two looks
xid.py        what an XID error means
watch.py      waits for XID errors while the ranks run
"""

from muster.check.gpu.rows import CHECKS

__all__ = ["CHECKS"]
