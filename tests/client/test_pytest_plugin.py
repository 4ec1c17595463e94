"""The pytest plugin, in separate runs of pytest: the guide's example, parallel workers, and killed runs."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import pages
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("pytest plugin")]

BLOCKS = pages.read_blocks(pages.ROOT / "docs" / "guides" / "testing-your-integration.md")
SHOP, TEST_OF_SHOP = (block.text for block in BLOCKS if block.language == "python")
TIMEOUT_S = 600

TESTS_THAT_SHARE = """
import pytest


@pytest.mark.parametrize("number", range(12))
def test_only_its_own(pix, number):
    charge = pix.client.charges.create(100 + number, pix.key, external_id="order-7")
    assert pix.pay(charge).status == "CONFIRMED"
    assert pix.inbox.wait_for("qrcode.approved", external_id="order-7").event.payload.id == charge.id
    assert [one.id for one in pix.client.charges.list(status="APPROVED")] == [charge.id]
    assert pix.client.balance().available_funds == 100 + number


@pytest.mark.parametrize("number", range(2))
def test_alone(pix, pix_clock, pix_faults, number):
    charge = pix.client.charges.create(100, pix.key)
    pix_faults.add("reject:AC03", operation="payment")
    assert pix.pay(charge).code == "AC03"
    assert pix.inbox.wait_for("qrcode.pending").event.payload.id == charge.id, "from before there was an inbox"
    pix_clock.advance(days=2)
    assert pix.client.charges.get(charge.id).status == "EXPIRED"
    assert pix.inbox.wait_for("qrcode.expired").answered == 204
    pix.inbox.answer_next(500)
    pix.client.charges.create(100, pix.key)
    refused = pix.inbox.wait_for("qrcode.pending")
    pix_clock.advance(minutes=1)
    came = [one for one in pix.inbox.received if one.event.id == refused.event.id]
    assert [(one.attempt, one.answered) for one in came] == [(1, 500), (2, 204)]
    pix_faults.clear()
    pix.receive(100)
    assert pix.client.balance().available_funds == 100


def test_who_shares_cannot_be_alone_any_more(pix, request):
    with pytest.raises(pytest.fail.Exception, match="must be arguments"):
        request.getfixturevalue("pix_clock")


@pytest.mark.pix(balance=5000, name="Ana", scopes=["charge.write", "webhook.read", "webhook.write", "ledger.read"])
def test_that_fails(pix):
    pix.pay(pix.client.charges.create(1234, pix.key, external_id="order-7"))
    pix.inbox.wait_for("qrcode.approved", external_id="order-7")
    pix.inbox.wait_for("qrcode.approved", external_id="order-8", timeout_s=0)
"""

TESTS_OF_WRONG_MARKS = """
import pytest


@pytest.mark.pix(scopes=["charge.write"], balance=0)
def test_that_may_not_be_told(pix):
    pix.inbox


@pytest.mark.pix(blance=5)
def test_that_misspells(pix):
    raise AssertionError


@pytest.mark.pix(scopes=["charge.wirte"])
def test_that_wants_what_there_is_not(pix):
    raise AssertionError
"""

TEST_THAT_HANGS = """
import pathlib, time


def test_that_hangs(pix, pix_clock, _pix_run):
    pix_clock.advance(days=1)
    pathlib.Path("told.unfinished").write_text(_pix_run.folder)
    pathlib.Path("told.unfinished").rename("told")
    time.sleep(600)
"""

TEST_OF_THE_CLOCK = """
from datetime import UTC, datetime


def test_the_clock_is_right_again(pix):
    assert abs(pix.client.sandbox.clock().now - datetime.now(UTC)).total_seconds() < 3600
"""


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A run of pytest on a folder; its service's data are kept for later runs."""
    cache = pages.ROOT / ".pytest_cache" / "plugin"
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-p", "no:randomly", *arguments]
    # A start of pytest closes the folder of all runs to other users, and with it the data of the tests' own servers.
    environment["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8")
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PIXCONNECT_COMMAND": f"{sys.executable} -P -m pixconnect"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(run: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = run.communicate(timeout=TIMEOUT_S)
    return run.returncode, said


def is_kept(folder: Path) -> bool:
    """Whether a keeper runs, which ends after its service."""
    with (folder / "keeper.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_example_works_and_tests_on_several_workers_see_nothing_of_each_other(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(TEST_OF_SHOP, encoding="utf-8")
    (tmp_path / "test_shared.py").write_text(TESTS_THAT_SHARE, encoding="utf-8")
    (tmp_path / "test_marks.py").write_text(TESTS_OF_WRONG_MARKS, encoding="utf-8")
    status, said = finish(start(tmp_path, "-n", "2", "--cache-clear"))
    assert (status, "2 failed, 17 passed, 2 errors" in said) == (1, True), said
    # A wrong mark is reported in one line.
    assert "pixconnect: @pytest.mark.pix: it takes name, tax_id, balance, scopes, and no blance" in said
    assert "pixconnect: @pytest.mark.pix: scopes[0]: must be one of" in said
    assert "pix.inbox needs webhook.read and webhook.write among the scopes" in said
    # The failure, and the events until then.
    assert "no qrcode.approved external_id='order-8' came within 0 s" in said
    timeline = said[said.index("what happened to holder", said.index("came within 0 s")) :]
    for told in ("qrcode.pending", "external_id=order-7 status=APPROVED", "balance: 6234 cents", "qrcode.approved (204"):
        assert told in timeline, said


def test_the_example_has_twenty_lines() -> None:
    assert len([line for line in TEST_OF_SHOP.splitlines() if line.strip()]) <= 20


def test_a_run_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(TEST_THAT_HANGS, encoding="utf-8")
    told = tmp_path / "told"
    with start(tmp_path, "-n", "2") as run:
        wait_until(lambda: told.exists() or run.poll() is not None)
        assert run.poll() is None, run.communicate()[0]
        assert is_kept(Path(told.read_text(encoding="utf-8")))
        run.send_signal(signal.SIGKILL)
    folder = Path(told.read_text(encoding="utf-8"))
    wait_until(lambda: not is_kept(folder))
    assert not (folder / "service.json").exists()
    # The clock had been moved: the next run finds it right.
    (tmp_path / "test_hangs.py").write_text(TEST_OF_THE_CLOCK, encoding="utf-8")
    status, said = finish(start(tmp_path))
    assert status == 0, said


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("/nowhere/pixconnect", "PIXCONNECT_COMMAND: there is no program /nowhere/pixconnect"),
        ("sh -c 'echo no room left; exit 1'", "no room left"),
    ],
)
def test_without_a_service_each_test_says_why(tmp_path: Path, command: str, complaint: str) -> None:
    (tmp_path / "test_clock.py").write_text(TEST_OF_THE_CLOCK, encoding="utf-8")
    # A separate cache: the plugin removes data with which no service starts.
    status, said = finish(start(tmp_path, "-o", f"cache_dir={tmp_path / 'cache'}", PIXCONNECT_COMMAND=command))
    assert status == 1
    assert complaint in said, said
    assert "Traceback" not in said
    assert "another exception" not in said, "it is told once, and not as its own cause"
