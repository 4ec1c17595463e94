"""A process of an installation only imports what it needs."""

import subprocess
import sys

_IMPORT = """
import sys
from pixconnect.running.part import lean_imports
with lean_imports():
    from pixconnect.running import processes
print(*{name.partition(".")[0] for name, module in sys.modules.items() if module is not None})
"""


def test_no_part_imports_what_draws_on_terminals() -> None:
    imported = set(subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True).stdout.split())
    assert {"structlog", "asyncpg"} <= imported
    assert imported.isdisjoint({"rich", "pygments", "attr"})


_FORK = """
import sys
from pixconnect.running import part
from pixconnect.platform.local import fork_server
fork_server.fork_if_asked = lambda control: None
fork_server.wait_for_part = lambda control: []
part._fork("--control-fd=0")
print(*sys.modules)
"""


def test_what_parts_need_is_imported_before_they_are_forked() -> None:
    """Otherwise parts start one by one as separate programs, and share no memory."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"pixconnect.running.prepare", "pixconnect.assembly.application", "pixconnect.assembly.worker"} <= set(
        done.stdout.split()
    )


_LIGHT = """
import sys
from pixconnect.running import main
print(*sys.modules)
"""


def test_the_fork_server_is_started_before_the_supervisors_own_imports() -> None:
    """It takes longest, and so must be the first."""
    done = subprocess.run([sys.executable, "-c", _LIGHT], capture_output=True, text=True, check=True)
    assert {"asyncio", "msgspec", "pixconnect.platform"}.isdisjoint(done.stdout.split())
