"""All event types, each caused as its page describes, over HTTP, and delivered to a receiver that verifies signatures."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pixconnect.kernel.rules.event import EVENT_NAMES, SANDBOX_CAUSES
from pixconnect_client import Charge, Client, InvalidWebhook, Transfer, verify_webhook, verify_webhook_body
from support.listener import Answer, LoopbackServer
from support.waiting import PATIENCE_S
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.each_change, pytest.mark.xdist_group("events")]

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python-client.md"
AMOUNT_CENTS = 1_234
HANDOVER_TIMEOUT_S = 60
ENDINGS = {
    "transfer.out.error": ["ERROR", "CANCELLED"],
    "refund.out.error": ["ERROR", "ERROR"],
    "infraction.opened": ["OPEN", "OPEN"],
    "infraction.reminded": ["OPEN"],
    "transfer.in.held": ["PROCESSING"],
}
"""Rejected by the rail, and not handed over in time; a refund has no CANCELLED."""

_CHARGE_FIELDS = {"id", "transaction_identification", "external_id", "status", "create_timestamp"}
_TRANSFER_FIELDS = {
    "id", "end_to_end_id", "correlation_id", "amount", "impact_type", "initiation_type", "status", "create_timestamp",
}  # fmt: skip
_REFUND_FIELDS = {
    "id", "return_identification", "original_end_to_end_id", "correlation_id", "amount", "status", "flow", "create_timestamp",
}  # fmt: skip
FIELDS = {
    "qrcode": _CHARGE_FIELDS,
    "transfer.in": _TRANSFER_FIELDS,
    "transfer.out": _TRANSFER_FIELDS | {"external_id"},
    "refund.in": _REFUND_FIELDS,
    "refund.out": _REFUND_FIELDS | {"external_id"},
    "movement": {
        *("id", "item_id", "kind", "impact_type", "amount", "deficit", "description", "status", "settle_timestamp"),
        "create_timestamp",
    },
    "infraction": {
        *(
            "id", "infraction_id", "end_to_end_id", "transfer_id", "amount", "held", "taken", "reason", "situation",
            "words",
        ),
        *("status", "respond_by", "respond_to", "create_timestamp"),
    },
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A body that the client package has verified."""

    id: int
    name: str
    payload: dict[str, Any]
    create_timestamp: str


class Believer(LoopbackServer):
    """A receiver that takes each verified event once, and keeps the errors of others."""

    def __init__(self) -> None:
        self.told: list[Webhook] = []
        self.refused: list[str] = []
        self._turn = threading.Lock()
        super().__init__(self._take, "/hook")

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        try:
            event = verify_webhook(body, dict(request.headers), SECRET)
            assert verify_webhook_body(body, dict(request.headers), SECRET) == event
        except InvalidWebhook as failure:
            self.refused.append(str(failure))
            return 400, {}, b""
        with self._turn:  # an answer may be lost on its way back, and the event then comes again
            if event.id not in [earlier.id for earlier in self.told]:
                self.told.append(Webhook(**json.loads(body)))
        return 200, {}, b""

    def wait_for(self, count: int) -> list[Webhook]:
        """Wait for so many events, and a little longer for one too many."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.told) < count and time.monotonic() < deadline_s:
            time.sleep(0.02)
        time.sleep(0.1)
        return self.told


class Story:
    """One holder who causes every fact."""

    def __init__(self, service: WholeInstallation, believer: Believer) -> None:
        self.service = service
        self.believer = believer
        self._names = count(1)
        self.account: Account = service.open_account(1_000_000)
        self.base_url = service.installation.base_url
        self.client = Client(self.base_url, self.account.client_id, self.account.client_secret)
        hook = {"url": believer.url, "secret": SECRET, "event_types": sorted(EVENT_NAMES)}
        self.endpoint_id = self.ask("POST", "/v1/webhook/endpoints", hook)["id"]
        self.caused: dict[str, list[Webhook]] = {}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = self.service.insist(self.account, method, path, body)
        assert answer.status == 200, (path, answer)
        return answer.data

    def cause(self, step: Callable[[], Any], *names: str) -> Any:
        told_count = len(self.believer.told)
        answer = step()
        told = sorted(self.believer.wait_for(told_count + len(names))[told_count:], key=lambda event: event.id)
        assert [event.name for event in told] == list(names), self.believer.refused
        for event in told:
            self.caused.setdefault(event.name, []).append(event)
        return answer

    def charge(self) -> Charge:
        name = self._name()
        charge = self.client.charges.create(AMOUNT_CENTS, self.account.key, external_id=name)
        assert self.client.charges.get_by_external_id(name).id == charge.id
        return charge

    def be_paid(self, **how: object) -> Any:
        return self.ask("POST", "/sandbox/v1/payments", how)

    def send(self, word: str) -> Transfer:
        name = self._name()
        address = f"{word}@sandbox.pix.example"
        transfer = self.client.transfers.create_by_key(AMOUNT_CENTS, address, "EMAIL", external_id=name)
        assert self.client.transfers.get_by_external_id(name).id == transfer.id
        return transfer

    def be_given_back(self, name: str, amount_cents: int) -> Any:
        return self.ask("POST", "/sandbox/v1/returns", {"end_to_end_id": name, "amount": amount_cents})

    def give_back(self, name: str) -> Any:
        refund = {"end_to_end_id": name, "amount": AMOUNT_CENTS, "external_id": self._name()}
        return self.ask("POST", "/v1/connect/refund", refund)

    def be_moved(self) -> Any:
        moved = {"kind": "fee", "direction": "OUT", "amount": AMOUNT_CENTS, "text": "Tarifa Pix"}
        return self.ask("POST", "/sandbox/v1/movements", moved)

    def break_off(self, operation: str, effect: str) -> None:
        self.ask("PUT", "/sandbox/v1/faults", {"rules": [{"match": {"operation": operation}, "effect": effect}]})

    def wait_for_handover_to_be_given_up(self) -> None:
        self.ask("POST", "/sandbox/v1/clock", {"advance_s": HANDOVER_TIMEOUT_S + 1})

    def _name(self) -> str:
        return f"order-{next(self._names)}"

    def tell(self) -> None:
        first = self.cause(self.charge, "qrcode.pending")
        came_in = ("transfer.in.processing", "transfer.in.confirmed")
        paid = self.cause(lambda: self.be_paid(emv=first.emvqrcps), *came_in, "qrcode.approved")
        second = self.cause(self.charge, "qrcode.pending")
        self.cause(
            lambda: self.be_paid(emv=second.emvqrcps, amount=AMOUNT_CENTS + 1),
            "transfer.in.processing", "transfer.in.error",
        )  # fmt: skip
        self.cause(lambda: self.ask("POST", "/sandbox/v1/clock", {"advance_s": 86_400}), "qrcode.expired")
        self.cause(lambda: self.be_paid(key=self.account.key, amount=1), *came_in)
        sent = self.cause(lambda: self.send("settle"), "transfer.out.processing", "transfer.out.confirmed")
        self.cause(lambda: self.send("reject-ac03"), "transfer.out.processing", "transfer.out.error")
        self.break_off("submit", "unavailable")
        self.cancelled = self.cause(lambda: self.send("settle"), "transfer.out.processing")
        self.cause(self.wait_for_handover_to_be_given_up, "transfer.out.error")
        self.ask("DELETE", "/sandbox/v1/faults")
        name = sent.end_to_end_id
        self.cause(lambda: self.be_given_back(name, AMOUNT_CENTS + 1), "refund.in.processing", "refund.in.error")
        self.cause(lambda: self.be_given_back(name, AMOUNT_CENTS), "refund.in.processing", "refund.in.returned")
        self.break_off("refund", "reject:AC03")
        received = paid["end_to_end_id"]
        self.cause(lambda: self.give_back(received), "refund.out.processing", "refund.out.error")
        self.break_off("refund", "unavailable")
        self.cause(lambda: self.give_back(received), "refund.out.processing")
        self.cause(self.wait_for_handover_to_be_given_up, "refund.out.error")
        self.ask("DELETE", "/sandbox/v1/faults")
        self.cause(lambda: self.give_back(received), "refund.out.processing", "refund.out.returned")
        self.cause(self.be_moved, "movement.posted")
        answered = self.be_contested()
        self.cause(lambda: self.ask("POST", "/sandbox/v1/clock", {"advance_s": 500_000}), "infraction.reminded")
        path = f"/v1/connect/infraction/id/{answered['id']}/defence"
        self.cause(lambda: self.ask("POST", path, {"text": "It was delivered"}), "infraction.answered")
        self.decide(answered["infraction_id"], "release", "infraction.released")
        refunded = ("refund.out.processing", "refund.out.returned")
        self.decide(self.be_contested()["infraction_id"], "take", *refunded, "infraction.taken")
        held = self.cause(
            lambda: self.be_paid(key=self.account.key, amount=AMOUNT_CENTS, suspect="return"),
            "transfer.in.processing", "transfer.in.held",
        )  # fmt: skip
        path = f"/sandbox/v1/payments/{held['end_to_end_id']}/decide"
        self.cause(lambda: self.ask("POST", path, {"decision": "release"}), "transfer.in.confirmed")

    def be_contested(self) -> Any:
        came_in = ("transfer.in.processing", "transfer.in.confirmed")
        paid = self.cause(lambda: self.be_paid(key=self.account.key, amount=AMOUNT_CENTS), *came_in)
        contest = {"end_to_end_id": paid["end_to_end_id"], "words": "I never got it"}
        told = self.cause(lambda: self.ask("POST", "/sandbox/v1/infractions", contest), "infraction.opened")
        (found,) = self.ask("GET", "/v1/connect/infraction/list?status=OPEN", None)
        assert found["infraction_id"] == told["infraction_id"]
        return found

    def decide(self, name: str, decision: str, *names: str) -> None:
        path = f"/sandbox/v1/infractions/{name}/decide"
        self.cause(lambda: self.ask("POST", path, {"decision": decision}), *names)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    believer = Believer()
    with open_whole_installation() as service:
        told = Story(service, believer)
        told.tell()
        yield told
        told.client.close()
    believer.close()


@pytest.mark.parametrize("name", SANDBOX_CAUSES)
def test_its_fact_causes_an_event_with_exactly_the_fields_of_its_family(story: Story, name: str) -> None:
    family, _, state = name.rpartition(".")
    statuses = [event.payload["status"] for event in story.caused[name]]
    assert statuses == ENDINGS.get(name, [state.upper()] * len(statuses))
    for event in story.caused[name]:
        payload = event.payload
        assert set(payload) == FIELDS[family] | ({"hold"} if name == "transfer.in.held" else set[str]())
        assert payload.get("amount", AMOUNT_CENTS) in {AMOUNT_CENTS, AMOUNT_CENTS + 1, 1}
        direction = "OUT" if family == "movement" else family.rpartition(".")[2].upper()
        assert payload.get("impact_type", payload.get("flow", "")) in {"", direction}
        assert all(value not in ("", None) for value in payload.values())
        assert event.create_timestamp >= str(payload["create_timestamp"])


def test_a_transfer_that_never_left_is_told_as_cancelled_and_its_money_is_there_again(story: Story) -> None:
    transfer = story.cancelled
    processing, cancelled = [
        event for event in story.believer.told if event.payload.get("end_to_end_id") == transfer.end_to_end_id
    ]
    assert (processing.name, cancelled.name) == ("transfer.out.processing", "transfer.out.error")
    assert cancelled.payload == {**processing.payload, "status": "CANCELLED"}
    assert cancelled.payload["external_id"] == transfer.external_id
    waited = datetime.fromisoformat(cancelled.create_timestamp) - datetime.fromisoformat(processing.create_timestamp)
    assert waited.total_seconds() >= HANDOVER_TIMEOUT_S
    found = story.ask("GET", f"/v1/connect/transfer/id/{transfer.id}")
    assert found["status"] == "CANCELLED"
    balance = story.ask("GET", "/v1/connect/ledger/balance")
    assert balance["available_funds"] == balance["current_funds"]


def test_nothing_was_told_that_could_not_be_believed(story: Story) -> None:
    assert story.believer.refused == []


def test_what_was_told_is_what_is_listed(story: Story) -> None:
    listed = story.ask("GET", "/v1/webhook/events?page_size=100")
    told = {event.id: (event.name, event.payload) for event in story.believer.told}
    items = listed if isinstance(listed, list) else listed["items"]
    assert {event["id"]: (event["name"], event["payload"]) for event in items} == told


def test_the_guides_program_runs(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = "".join(programs).replace("http://127.0.0.1:8080", story.base_url)
    program = program.replace("loja@demo.pix.example", story.account.key).replace("order-1", "of-the-guide")
    names: dict[str, Any] = {"client_id": story.account.client_id, "client_secret": story.account.client_secret}
    exec(program, names)  # noqa: S102  it is our own page
    assert capsys.readouterr().out.startswith("000201")
    asked = (AMOUNT_CENTS, "settle@sandbox.pix.example", "EMAIL", "sent-by-the-guide")
    assert names["send"](*asked).id == names["send"](*asked).id
    kept: list[str] = []

    def keep(cursor: str) -> None:
        kept.append(cursor)
        if len(kept) == len(story.believer.told):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        names["follow"](None, keep)
    assert f"was paid: {AMOUNT_CENTS} cents" in capsys.readouterr().out
    names["client"].close()
