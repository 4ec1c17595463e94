"""The parts of the pytest plugin: starting and ending the service, its lock, and the inbox."""

import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pixconnect.features.webhooks.rules.endpoint import standard_signature
from pixconnect_client.testing import service
from pixconnect_client.testing.inbox import Inbox
from pixconnect_client.testing.lock import hold_sandbox
from pixconnect_client.testing.service import NoService, RunHold, find_service
from support.waiting import wait_until

# It behaves as the keeper expects of a service: it writes its address, reports that it is ready, and ends on request.
SERVICE = """
import json, os, pathlib, signal, sys, time
home = pathlib.Path(os.environ["PIXCONNECT_HOME"])
home.mkdir(exist_ok=True)
with (home.parent / "starts").open("a") as starts:
    starts.write(f"{os.getpid()} {sys.argv[1:]} {sorted(os.listdir(home))}\\n")
if (home / "broken").exists():
    sys.exit("the home is broken")
(home / "used").touch()
names = ("base_url", "auth_url", "client_id", "client_secret")
(home / "sandbox.json").write_text(json.dumps({name: os.environ.get("PIXCONNECT_WORD", name) for name in names}))
print("Ready in 0.0 s.", flush=True)
signal.pause()
"""


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunHold]:
    (tmp_path / "service.py").write_text(SERVICE, encoding="utf-8")
    monkeypatch.setenv(service.COMMAND_VARIABLE, f"{sys.executable} -I {tmp_path / 'service.py'}")
    monkeypatch.setenv("PIXCONNECT_WORD", "the tester's own")
    held = RunHold(tmp_path)
    yield held
    held.release()


def starts(hold: RunHold) -> list[str]:
    return (hold.run.path / "starts").read_text(encoding="utf-8").splitlines()


def is_alive(line: str) -> bool:
    try:
        os.kill(int(line.split(maxsplit=1)[0]), 0)
    except ProcessLookupError:
        return False
    return True


def test_whoever_needs_the_service_first_starts_it_and_it_ends_with_the_run(hold: RunHold) -> None:
    with ThreadPoolExecutor(4) as at_once:
        found = list(at_once.map(lambda _: find_service(hold.run, {}), range(8)))
    assert {one.base_url for one in found} == {"base_url"}, "nothing of the tester's own settings gets in"
    (only,) = starts(hold)
    assert "['run', '--end-with-parent']" in only
    assert is_alive(only)
    hold.release()
    assert not is_alive(only)
    assert not (hold.run.path / "service.json").exists()


def test_settings_that_are_given_reach_the_service(hold: RunHold) -> None:
    assert find_service(hold.run, {"PIXCONNECT_WORD": "given"}).client_id == "given"


def test_two_runs_have_services_of_their_own_and_a_later_one_takes_over_the_home(hold: RunHold, tmp_path: Path) -> None:
    other = RunHold(tmp_path)
    assert other.run.folder != hold.run.folder
    find_service(hold.run, {})
    hold.release()
    other.release()
    later = RunHold(tmp_path)
    assert later.run.folder == hold.run.folder
    find_service(later.run, {})
    later.release()
    assert [line.partition(" ['run'")[2].partition("] ")[2] for line in starts(hold)] == ["[]", "['sandbox.json', 'used']"]


@pytest.mark.parametrize("is_worn", [True, False])
def test_a_home_that_is_worn_or_broken_is_made_anew(hold: RunHold, *, is_worn: bool) -> None:
    (hold.run.path / "home").mkdir()
    (hold.run.path / "home" / "broken").touch()
    if is_worn:
        service.wear_out(hold.run)
    assert find_service(hold.run, {}).base_url
    assert len(starts(hold)) == (1 if is_worn else 2)
    assert starts(hold)[-1].endswith("[]")


def test_a_service_that_does_not_start_is_tried_once_and_quoted_to_all(hold: RunHold, tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(
        "import os\nopen(os.environ['PIXCONNECT_HOME'] + '-tries', 'a').write('x')\nexit('no room')", encoding="utf-8"
    )
    for _ in range(3):
        with pytest.raises(NoService, match="no room"):
            find_service(hold.run, {})
    assert (hold.run.path / "home-tries").read_text(encoding="utf-8") == "x"


def test_a_service_that_gives_up_is_not_found_any_more(hold: RunHold) -> None:
    find_service(hold.run, {})
    os.kill(int(starts(hold)[0].split()[0]), signal.SIGKILL)
    wait_until(lambda: not (hold.run.path / "service.json").exists())


def test_tests_share_the_sandbox_and_who_needs_it_alone_is_not_overtaken(hold: RunHold) -> None:
    order: list[str] = []
    came, leave, at_once = threading.Event(), threading.Event(), threading.Event()
    at_once.set()

    def take_a_turn(name: str, until: threading.Event, *, is_alone: bool = False) -> None:
        with hold_sandbox(hold.run, lambda: order.append("restored"), is_alone=is_alone):
            order.append(name)
            came.set()
            assert until.wait(60)

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(take_a_turn, "first", leave)
        assert came.wait(60)
        take_a_turn("second, beside the first", at_once)
        alone = threads.submit(take_a_turn, "alone", at_once, is_alone=True)
        wait_until_locked(hold.run.own_path / "gate.lock")
        later = threads.submit(take_a_turn, "later", at_once)
        leave.set()
        for turn in (first, alone, later):
            turn.result(60)
    assert order == ["first", "second, beside the first", "alone", "restored", "later"]


def wait_until_locked(path: Path) -> None:
    until_s = time.monotonic() + 60
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        assert time.monotonic() < until_s
        time.sleep(0.001)


def test_what_a_killed_test_changed_is_undone_before_the_next(hold: RunHold) -> None:
    (hold.run.path / "changed").touch()
    order: list[str] = []
    for name in ("first", "second"):
        with hold_sandbox(hold.run, lambda: order.append("restored"), is_alone=False):
            order.append(name)
    assert order == ["restored", "first", "second"]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    opened = Inbox()
    yield opened
    opened.close()


def post(inbox: Inbox, secret: str, number: int, external_id: str, attempt: int = 1) -> int:
    payload = dict(
        id=7, transaction_identification="t" * 32, external_id=external_id, status="APPROVED",
        create_timestamp="2026-11-20T12:00:00Z",
    )  # fmt: skip
    event = {"id": number, "name": "qrcode.approved", "payload": payload, "create_timestamp": "2026-11-20T12:00:05Z"}
    body, now_s = json.dumps(event).encode(), int(time.time())
    headers = {
        "webhook-id": f"evt_{number}",
        "webhook-timestamp": str(now_s),
        "webhook-signature": standard_signature([secret], f"evt_{number}", now_s, body),
        "X-Webhook-Attempt": str(attempt),
    }
    return httpx2.post(inbox.url, content=body, headers=headers, timeout=60).status_code


def test_an_inbox_finds_each_event_once_whenever_it_came_and_however_often(inbox: Inbox) -> None:
    inbox.answer_next(500)
    assert [post(inbox, inbox.secret, 1, "order-1", attempt) for attempt in (1, 2)] == [500, 204]
    assert post(inbox, inbox.secret, 2, "order-2") == 204
    assert inbox.wait_for("qrcode.approved", external_id="order-2").event.id == 2
    assert inbox.wait_for("qrcode.approved").answered == 500
    assert [one.attempt for one in inbox.received] == [1, 2, 1]
    with pytest.raises(AssertionError, match=r"(?s)no qrcode.approved came.*qrcode.approved +id=7.*order-1"):
        inbox.wait_for("qrcode.approved", timeout_s=0)


@pytest.mark.parametrize(
    ("name", "payload", "complaint"),
    [
        ("qrcode.approved", {"timeout": 1}, "wait_for() has no argument 'timeout', and .*; did you mean 'timeout_s'?"),
        ("qrcode.approved", {"externalid": "7"}, "did you mean 'external_id'?"),
        ("qrcode.approved", {"amount": 7}, "the payload of qrcode.approved no such field; there are id, "),
        ("qrcode.aproved", {}, "there is no event 'qrcode.aproved'; did you mean 'qrcode.approved'?"),
    ],
)
def test_an_inbox_never_waits_in_vain(inbox: Inbox, name: str, payload: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint.replace("()", r"\(\)").replace("?", r"\?")):
        inbox.wait_for(name, **payload)


def test_an_inbox_refuses_what_is_not_from_the_service_and_says_so(inbox: Inbox) -> None:
    assert post(inbox, "another secret of somebody", 1, "order-1") == 400
    assert inbox.received == []
    with pytest.raises(AssertionError, match="no signature fits"):
        inbox.wait_for("qrcode.approved", timeout_s=0)
