"""Stage 5: runs a plan and watches it until every rank on this host is over.

    shim.py        the parent of each rank: `muster-rank -- python train.py`
    protocol.py    what the shim and the harness say to each other
    ranks.py       the harness's end of those conversations
    spill.py       variables too long to be variables, as files
streams.py     the log pump, a thread of its own
    children.py    starting the launcher, reaping orphans
    supervisor.py  the loop that decides: release, stop, abort, kill
    outcome.py     from how the ranks ended to how the job ended (pure)
    run.py         all of it together

This file imports nothing: every rank's shim loads it.
"""
