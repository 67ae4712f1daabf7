"""scripts/bench: muster beside bare torchrun and AWS's own toolkit, in interleaved runs.

- command.py: the command line, and the order of things
- parts.py: what is measured, for whom, in which order
- containers.py: jobs in containers
- processes.py: jobs without a container
- failures.py: what happens to a host, and how long the job lives on
- code.py, store.py: a job's code from S3; a server that stands in for it
- peer.py: the image with AWS's toolkit; peer/ holds its Dockerfile and pins
- facts.py: the machine and the versions
- results.py: the figures, their medians and ratios, JSON
- targets.py: the limits, and whether they are met
- page.py: the tables, and their place in docs/performance.md
- jobs/: the scripts that are measured, for every contender the same
"""
