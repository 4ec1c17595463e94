"""Python runs this file at its start in every process of an installation that may be killed at its kill points."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from support import killed_process

killed_process.watch()
