"""Stage 1: the job as SageMaker describes it, read leniently into one `Job`.

files.py            the JSON files under /opt/ml/input/config
hyperparameters.py  decoding, and the split between the user's and the reserved
exportable.py       what no program can be given
argv.py             hyperparameters as the script's arguments
precedence.py       who wins where two places set the same thing
program.py          which script is meant, and where its code is said to be
resources.py        hosts, interface
groups.py           instance groups, and the hosts that train together
machine.py          what this host has (the only module here that looks at the machine)
names.py            names of variables for channels and hyperparameters
exports.py          the SM_* variables
read.py             all of it together
"""

from muster.contract.read import read_contract, read_place

__all__ = ["read_contract", "read_place"]
