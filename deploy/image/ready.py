"""Whether the API process in this container takes requests: an image has no curl."""

import os
import sys
from urllib.error import URLError
from urllib.request import urlopen

port = os.environ.get("PIXCONNECT_PORT") or os.environ.get("PORT") or "8080"
try:
    with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=4) as answer:
        sys.exit(answer.status != 200)
except (URLError, OSError):
    sys.exit(1)
