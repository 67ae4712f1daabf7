"""Between the hosts of a job: one connection from each to the first, owned by the harness.

wire.py     frames: signed, numbered lines
key.py      who may speak
"""
