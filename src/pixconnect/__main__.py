"""``python -m pixconnect`` is the command line."""

import sys

from pixconnect.running.main import main

sys.exit(main())
