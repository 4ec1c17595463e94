"""Python runs this file at the start of every process of an installation with kill points."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from support import killed_process

killed_process.watch()
