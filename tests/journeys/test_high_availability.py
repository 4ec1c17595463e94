"""Three PostgreSQL machines on this one: the guide's commands as printed, and some failures under load, judged."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import pages
from support.failover.failing import Failure, Kind
from support.failover.run import Options, run
from support.failover.told import IN_FLIGHT_S, WITHOUT_WRITES_MAX_S
from support.ha.network import GUIDE, choose_loopback
from support.ha.programs import find_missing, open_programs
from support.home import new_home
from support.installation import ROOT, environment
from support.ports import reserved_port

MISSING = find_missing()
# Both start a dozen servers: one after the other.
pytestmark = [
    pytest.mark.journey,
    pytest.mark.long,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(MISSING is not None, reason=f"no cluster can be started: {MISSING}"),
]

PAGE = ROOT / "docs" / "guides" / "high-availability.md"


@pytest.fixture
def machines() -> Iterator[tuple[Path, str]]:
    """Run ``make ha`` in another folder and at other addresses, and end it by Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-ha-") as folder:
        Path(folder).chmod(0o755)
        home, prefix = Path(folder) / "machines", choose_loopback().prefix
        given = os.environ | dict(PIXCONNECT_HA_HOME=str(home), PIXCONNECT_HA_NETWORK=prefix)
        command = [sys.executable, "-m", "support.ha"]
        with subprocess.Popen(command, cwd=ROOT, env=given, stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            assert "is the primary" in started.stdout.readline()
            yield home, prefix
            started.send_signal(signal.SIGINT)
            assert started.wait(120) == 0
        assert not [one for one in Path("/proc").glob("[0-9]*") if _leads_into(one / "cwd", home)]


def _leads_into(cwd: Path, home: Path) -> bool:
    try:
        return Path(os.readlink(cwd)).is_relative_to(home)
    except OSError:
        return False


def test_the_guide_does_what_it_says(machines: tuple[Path, str], tmp_path: Path) -> None:
    home, prefix = machines
    page, folder = tmp_path / PAGE.name, tmp_path / "folder"
    page.write_text(PAGE.read_text(encoding="utf-8").replace(GUIDE, prefix))
    folder.mkdir()
    with new_home() as service, reserved_port() as port, reserved_port() as sandbox_port:
        given = environment(service, port=str(port))
        given |= dict(
            HA=str(home),
            PORT=str(port),
            PATH=os.pathsep.join((str(Path(sys.executable).parent), str(open_programs().postgres), os.environ["PATH"])),
            PIXCONNECT_RAIL_URL=f"http://127.0.0.1:{sandbox_port}",
            PIXCONNECT_BASE_URL=f"http://127.0.0.1:{port}",
            PIXCONNECT_SECRET_KEY="YS1rZXktb2YtdGhlLXRlc3RzLW9mLXRoZS1ndWlkZS4=",
            BACKUP=str(tmp_path / "backup"),
            BACKUP_URL=f"postgresql://pix_backup:change-me-4@{prefix}.10:5432/",
        )
        pages.run_page(page, folder, given)


KINDS: tuple[Kind, ...] = ("killed", "cut off", "switched over", "replica lost")


def test_whatever_machine_fails_nothing_is_lost_nor_doubled_and_callers_hear_in_time() -> None:
    failures = [Failure(kind) for kind in KINDS]
    outcome = run(Options(seed=27, failures=failures, pause_s=0.4))
    assert outcome.findings == []
    assert outcome.payments_there_count > 0
    for each in outcome.rounds:
        assert 500 not in each.answers
        # The machine may be busy; if an election lacked CPU, its log shows it.
        if not each.starved:
            assert each.silent_s < 2 * WITHOUT_WRITES_MAX_S, each
            assert each.slowest_refusal_s < 2 * IN_FLIGHT_S, each
