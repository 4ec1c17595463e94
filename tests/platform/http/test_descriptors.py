"""Open files: their number, and its distribution."""

import resource
import subprocess
import sys

import pytest

from pixconnect.platform.http.listening import CONNECTIONS_MAX, share_out

RAISE = """
import resource
from pixconnect.platform.http.listening import raise_limit
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_process_may_open_as_many_files_as_the_machine_lets_it() -> None:
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 2048)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({hard // 2}, {hard}))\n"
    told = subprocess.run([sys.executable, "-c", limit + RAISE], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(hard)] * 3


@pytest.mark.parametrize(
    ("files_max", "database_max", "callers"),
    [(1024, 10, 512), (1_048_576, 10, CONNECTIONS_MAX), (256, 10, 128), (2048, 4000, 1024)],
)
def test_callers_leave_files_for_the_rest(files_max: int, database_max: int, callers: int) -> None:
    assert share_out(files_max, database_max) == callers
