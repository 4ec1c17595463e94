"""Every event is caused, listed, posted to an endpoint and sent again."""

from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks import Webhook

from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.kernel.rules.event import SANDBOX_CAUSES
from pixconnect.running.main import main
from support.installation import Installation
from support.listening_program import a_program

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("integrator")]

Run = Callable[..., Any]


@pytest.mark.parametrize("name", SANDBOX_CAUSES)
def test_each_event_is_made_to_happen_with_chosen_data(name: str, run: Run) -> None:
    chosen = ("--external-id", f"chosen-{name}") if ".in." not in name and name != "movement.posted" else ()
    event = run("trigger", name, "--amount", "4321", *chosen)
    assert event["name"] == name
    assert event["payload"].get("amount", 4321) in {4321, 4322}
    assert event["payload"].get("external_id") == (chosen[1] if chosen else None)
    assert run("events", "show", str(event["id"])) == event
    if name in ("qrcode.expired", "infraction.reminded"):
        # It has moved the clock.
        run("clock", "reset")
    assert run("faults", "list") == {"rules": []}
    listed = run("events", "list", "--name", name, "--limit", "1000")["events"]
    assert event in listed
    assert {one["name"] for one in listed} == {name}
    if chosen:
        assert main(["trigger", name, *chosen]) == ExitStatus.REFUSED


def test_the_events_of_a_charge_are_listed_by_each_of_its_names(run: Run) -> None:
    charge = run("charge", "create", "1000", "--external-id", "events-of-it")
    run("charge", "create", "1000")
    run("pay", "events-of-it")
    assert run("charge", "watch", "events-of-it")["status"] == "APPROVED"
    for name in (str(charge["id"]), "events-of-it", charge["transaction_identification"]):
        listed = run("events", "list", "--charge", name)["events"]
        assert {"qrcode.pending", "qrcode.approved"} <= {event["name"] for event in listed}
        assert {event["payload"]["transaction_identification"] for event in listed} == {charge["transaction_identification"]}


def test_an_unknown_event_is_told_with_the_nearest(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trigger", "refund.out.eror"]) == ExitStatus.REFUSED
    assert capsys.readouterr().err.endswith("it is 'refund.out.eror'; did you mean refund.out.error?\n")
    assert main(["events", "show", "1"]) == ExitStatus.REFUSED
    assert "there is no event 1 among the newest" in capsys.readouterr().err


def test_what_only_an_institution_causes_is_refused(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trigger", "transfer.in.completed"]) == ExitStatus.REFUSED
    refusal = capsys.readouterr().err.split("; it is")[0]
    assert "or transfer.in.held" in refusal
    assert "charge.diverged" not in refusal


def test_an_endpoint_is_added_tried_out_rotated_and_removed(
    run: Run, sandbox: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_program() as program:
        added = run("endpoint", "add", program.url, "--event", "qrcode.pending")
        endpoint_id = str(added["id"])
        tried = run("endpoint", "test", endpoint_id)
        assert (tried["status"], tried["answer"]) == ("delivered", 204)
        headers, body = program.posts[0]
        Webhook(added["secret"]).verify(body, headers)
        event_id = str(program.events[0]["id"])
        assert run("events", "resend", event_id)["sent"][0]["to"] == f"endpoint {endpoint_id}"
        program.wait_for(2)
        assert program.posts[1][1] == body
        rotated = run("endpoint", "rotate", endpoint_id)["secret"]
        assert run("endpoint", "test", endpoint_id)["status"] == "delivered"
        Webhook(rotated).verify(program.posts[2][1], program.posts[2][0])
        assert len(run("endpoint", "show", endpoint_id)["deliveries"]) == 2
        program.statuses = [500]
        assert main(["endpoint", "test", endpoint_id]) == ExitStatus.ENDED_BADLY
        assert "did not accept it" in capsys.readouterr().err
    assert run("endpoint", "pause", endpoint_id)["status"] == "inactive"
    assert run("events", "resend", event_id)["sent"][0]["answer"] == "waits: it is inactive"
    assert main(["endpoint", "test", endpoint_id]) == ExitStatus.REFUSED
    assert f"pixconnect endpoint resume {endpoint_id} makes it active" in capsys.readouterr().err
    missed_id = str(run("trigger", "qrcode.pending")["id"])
    assert main(["events", "resend", missed_id, "--endpoint-id", endpoint_id]) == ExitStatus.REFUSED
    way_on = capsys.readouterr().err.split("`pixconnect ")[1].partition("`")[0].split()
    assert way_on[:3] == ["endpoint", "replay", endpoint_id]
    assert run(*way_on) == {"replayed": 1}
    assert run("endpoint", "resume", endpoint_id)["status"] == "active"
    assert main(["endpoint", "resume", endpoint_id]) == 0
    assert capsys.readouterr().err == f"the endpoint {endpoint_id} was active already: nothing is changed\n"
    assert [one["id"] for one in run("endpoint", "list")["endpoints"]] == [added["id"]]
    assert run("endpoint", "remove", endpoint_id)["id"] == added["id"]
    assert main(["events", "resend", event_id]) == ExitStatus.REFUSED
    assert "no `pixconnect listen` runs" in capsys.readouterr().err


def test_an_endpoint_is_tried_out_after_the_clock_was_set_back(run: Run, sandbox: Installation) -> None:
    with a_program() as program:
        endpoint_id = str(run("endpoint", "add", program.url, "--event", "qrcode.pending")["id"])
        run("clock", "advance", "86400")
        try:
            for _ in range(10):
                run("trigger", "qrcode.pending")
        finally:
            run("clock", "reset")
        assert run("endpoint", "test", endpoint_id)["status"] == "delivered"
        run("endpoint", "remove", endpoint_id)
