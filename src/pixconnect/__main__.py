"""``python -m pixconnect`` is the command line."""

import sys

from pixconnect.cli.main import main

sys.exit(main())
