"""`python -m muster`."""

import sys

from muster.cli import main

sys.exit(main())
