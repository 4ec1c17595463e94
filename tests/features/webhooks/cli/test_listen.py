"""``pixconnect listen`` omits and reorders nothing, even if a process dies."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from standardwebhooks import Webhook

from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.features.webhooks.cli import listen as forwarding
from pixconnect.running.main import main
from support.installation import PIXCONNECT, Installation
from support.listening_program import a_program
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("integrator")]

Run = Callable[..., Any]


@contextmanager
def listening(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A running ``listen``, killed afterwards."""
    command = [*PIXCONNECT, "listen", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(process, "Ctrl-C stops")
            yield process
        finally:
            process.kill()


def _wait_for(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return line
    raise AssertionError(f"it never said {words!r}: {''.join(said)}")


def test_events_are_posted_in_order_whoever_fails_or_is_killed(run: Run, sandbox: Installation) -> None:
    made: list[int] = []
    with a_program() as program:
        words = ("--forward-to", program.url, "--events", "qrcode.pending,qrcode.approved")
        with listening(*words) as process:
            secret = _wait_for(process, "signed with").split()[-1]
            made.append(run("trigger", "qrcode.pending")["id"])
            program.wait_for(1)
            headers, body = program.posts[0]
            Webhook(secret).verify(body, headers)
            # It refuses one, so later ones wait.
            program.statuses = [500]
            made += [run("trigger", "qrcode.pending")["id"] for _ in range(2)]
            assert "500" in _wait_for(process, "again in 1 s")
            program.wait_for(4)
        # Killed as by kill -9; meanwhile events wait in the feed.
        run("trigger", "transfer.in.confirmed")
        made.append(run("trigger", "qrcode.pending")["id"])
        with listening(*words):
            made.append(run("trigger", "qrcode.pending")["id"])
            # By its id: an event that was posted and not recorded before the kill comes again, so counts prove nothing.
            wait_until(lambda: made[-1] in [event["id"] for event in program.events], "the last was posted")
            assert main(["listen", *words]) == ExitStatus.REFUSED
            again = run("events", "resend", str(made[0]))["sent"]
            assert again[0]["to"] == f"listen {program.url}"
            assert again[0]["answer"].startswith("204")
        came = [event["id"] for event in program.events]
        assert came[-1] == made[0]
        # An event may come twice if its answer was not recorded; never out of order.
        assert list(dict.fromkeys(came)) == made


def test_without_a_program_events_are_printed_for_one(run: Run, sandbox: Installation) -> None:
    with listening("--json", "--start", "oldest") as process:
        made = run("trigger", "transfer.in.confirmed")
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["id"] == made["id"]:
                break
        assert (event["payload"], event["answer"]) == (made["payload"], None)
        # The reader of its output goes away.
        process.stdout.close()
        run("trigger", "transfer.in.confirmed")
        assert process.wait(60) == ExitStatus.READER_GONE


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("3000", "http://localhost:3000/"),
        (":3000", "http://localhost:3000/"),
        ("3000/hook?a=1", "http://localhost:3000/hook?a=1"),
        ("localhost/hook", "http://localhost/hook"),
        ("web:3000", "http://web:3000"),
        ("127.0.0.1:3000/", "http://127.0.0.1:3000/"),
        ("https://web/hook", "https://web/hook"),
    ],
)
def test_a_port_or_less_than_a_url_is_enough(address: str, url: str) -> None:
    assert forwarding.complete(address) == url


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--events qrcode.aproved", "'qrcode.aproved' names an event that there is not; did you mean qrcode.approved?"),
        ("--forward-to ftp://x", "--forward-to: must be an address such as http://localhost:3000/"),
    ],
)
def test_what_cannot_be_is_told_before_it_listens(
    words: str, complaint: str, sandbox: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["listen", *words.split()]) == ExitStatus.REFUSED
    assert complaint in capsys.readouterr().err
