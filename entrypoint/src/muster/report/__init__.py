"""Stage 5: what remains of the run, for a person and for a machine.

failure.py   the text of /opt/ml/output/failure (pure)
hints.py     what a script's own error means in this job (pure)
record.py    the JSON account of the run (pure)
write.py     the only writer to /opt/ml/output
"""

from muster.report.write import begin, finish

__all__ = ["begin", "finish"]
