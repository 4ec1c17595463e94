"""A process of an installation imports nothing that it does not need."""

import subprocess
import sys

_IMPORT = """
import sys
from pixconnect.cli.running.part import lean_imports
with lean_imports():
    from pixconnect.cli.running import processes
print(*{name.partition(".")[0] for name, module in sys.modules.items() if module is not None})
"""


def test_no_part_imports_what_draws_on_terminals() -> None:
    imported = set(
        subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"structlog", "asyncpg"} <= imported
    assert imported.isdisjoint({"rich", "pygments", "attr"})
