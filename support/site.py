"""The documentation site, built as `make site` builds it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_site(folder: Path) -> Path:
    """Build it into a folder in a separate process, because MkDocs configures logging globally."""
    site = folder / "site"
    built = subprocess.run(
        [sys.executable, "-m", "scripts.site", "--to", site], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return site
