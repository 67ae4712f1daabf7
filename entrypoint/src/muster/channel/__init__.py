"""Between the hosts of a job: one connection from each to the first, owned by the harness.

meeting.py      what the stages use: roll call, barrier, verdict, leaving
opening.py      which part this host plays
peer.py         this host's end, and the whole of it in a job of one host
leader.py       the first host's end: admission.py, rollcall.py
member.py       another host's end: dialling.py
session.py      frames on one connection
names.py        names to addresses, in threads
coordinator.py  the leader's mind: roster.py, outbox.py, agreement.py, council.py, straggling.py, verdict.py (pure)
message.py      what is said (pure)
wire.py         frames: signed, numbered lines (pure)
key.py          who may speak (pure)
"""
