"""The client's decisions, without connections and waiting: the test answers every step."""

import copy
import inspect
import json
import pickle
import pydoc
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from pixconnect_client import (
    ApiError,
    ChargeEvent,
    ChargePayer,
    Conflict,
    CursorExpired,
    Forbidden,
    InvalidArgument,
    InvalidRequest,
    NoAnswer,
    NotFound,
    OtherEvent,
    PixConnectError,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from pixconnect_client._call import Answer, Call
from pixconnect_client._core import Core, Send, Token, Wait
from pixconnect_client._resources import Charges, Endpoints, Events
from pixconnect_client._sandbox import Sandbox

CHARGE = dict(
    id=7, amount=10_607, key="loja@pix.example", external_id="order-1", status="PENDING", emvqrcps="000201",
    base64image="", transaction_identification="t",
)  # fmt: skip
PAYLOAD = dict(
    id=7, transaction_identification="t", external_id="order-1", status="FROZEN", create_timestamp="2026-11-20T12:00:00.000000Z"
)
ENDPOINT = dict(
    id=7,
    url="https://shop.example/pix",
    event_types=["qrcode.approved"],
    status="active",
    create_timestamp="2026-11-20T12:00:00.000000Z",
    last_modified="2026-11-20T12:00:00.000000Z",
)
CREATE = Charges.create.build(None, 10_607, "loja@pix.example", external_id="order-1")
READ = Charges.get.build(None, 7)
ADD_ENDPOINT = Endpoints.create.build(None, "https://shop.example/pix", ["qrcode.approved"])
LOST = NoAnswer("lost", may_have_happened=True)
UNREACHED = NoAnswer("unreached", may_have_happened=False)


def done(data: object = CHARGE) -> Answer:
    return Answer(status=200, headers={}, content=json.dumps({"success": True, "data": data}).encode())


def refused(status: int, code: str, **headers: str) -> Answer:
    error = {"error": {"code": code, "message": "because", "field": "amount"}, "meta": {"request_id": "r-1"}}
    return Answer(status=status, headers=headers, content=json.dumps(error).encode())


class World:
    """A service with prepared answers, and a clock that only waiting moves."""

    def __init__(self, *outcomes: Answer | PixConnectError, lifetime_s: int = 300, retries: int = 4) -> None:
        self.outcomes = list(outcomes)
        self.logins: list[Answer | PixConnectError] = []
        self.lifetime_s = lifetime_s
        self.now_s = 1000.0
        self.sent: list[Send] = []
        self.waits: list[float] = []
        self.tokens_count = 0
        self.core = Core(
            "http://pix.example/", "me", "a&b", auth_url=None, timeout_s=30, retries=retries,
            monotonic_s=lambda: self.now_s, jitter=lambda: 1,
        )  # fmt: skip

    def ask(self, call: Call[Any]) -> Any:
        return self._drive(self.core.converse(call))

    def _drive(self, conversation: Any) -> Any:
        try:
            step = next(conversation)
            while True:
                try:
                    found = self._take(step)
                except PixConnectError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(found)
        except StopIteration as end:
            return end.value

    def _take(self, step: Send | Wait | Token) -> Any:
        match step:
            case Wait():
                self.waits.append(step.seconds)
                self.now_s += step.seconds
                return None
            case Token():
                return self._drive(self.core.log_in(step.refused))
            case Send() if step.url.endswith("/login"):
                return self._log_in()
            case Send():
                self.sent.append(step)
                outcome = self.outcomes.pop(0)
                if isinstance(outcome, PixConnectError):
                    raise copy.copy(outcome)
                return outcome

    def _log_in(self) -> Answer:
        outcome = self.logins.pop(0) if self.logins else None
        if isinstance(outcome, PixConnectError):
            raise copy.copy(outcome)
        if outcome is not None:
            return outcome
        self.tokens_count += 1
        return done({"access_token": f"token-{self.tokens_count}", "expires_in": self.lifetime_s, "token_type": "Bearer"})


@pytest.mark.parametrize("outcome", [
    LOST, UNREACHED, refused(503, "SERVICE_UNAVAILABLE"), refused(504, "OUTCOME_UNKNOWN"), refused(429, "RATE_LIMITED"),
    Answer(status=502, headers={}, content=b"bad gateway"),
])  # fmt: skip
@pytest.mark.parametrize("call", [CREATE, READ])
def test_what_cannot_be_done_twice_is_sent_again_under_the_same_id(call: Call[Any], outcome: Any) -> None:
    world = World(outcome, outcome, done())
    assert world.ask(call).id == 7
    assert world.waits == [0.25, 0.5]
    assert len({step.content for step in world.sent}) == 1


@pytest.mark.parametrize("outcome", [LOST, refused(503, "SERVICE_UNAVAILABLE"), refused(429, "RATE_LIMITED")])
def test_what_might_be_done_twice_is_sent_once(outcome: Any) -> None:
    world = World(outcome)
    with pytest.raises(PixConnectError) as failed:
        world.ask(ADD_ENDPOINT)
    assert world.waits == []
    assert failed.value.external_id is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "BAD_REQUEST", InvalidRequest), (403, "FORBIDDEN", Forbidden), (404, "NOT_FOUND", NotFound),
        (422, "INSUFFICIENT_FUNDS", InvalidRequest), (422, "EXTERNAL_ID_CONFLICT", Conflict),
        (410, "CURSOR_EXPIRED", CursorExpired), (418, "SOMETHING_NEW", InvalidRequest),
        (500, "INTERNAL_ERROR", Unavailable),
    ],
)  # fmt: skip
def test_a_refusal_that_time_does_not_change_is_final(status: int, code: str, kind: type[ApiError]) -> None:
    world = World(refused(status, code))
    with pytest.raises(kind, match=f"{code}: because") as failed:
        world.ask(CREATE)
    error = failed.value
    assert (error.status, error.code, error.message, error.request_id) == (status, code, "because", "r-1")
    assert (error.details, error.external_id) == ({"field": "amount"}, "order-1")
    assert error.may_have_happened is (status == 500)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, {"type": "https://pix.bcb.gov.br/api/v2/error/PixDevolucaoInvalida", "title": "x", "status": 400,
            "detail": "Veja", "correlationId": "r-2", "violacoes": [{"propriedade": "valor", "razao": "falta"}]},
            InvalidRequest, "Veja; valor: falta"),
        (404, {"type": "about:blank", "title": "x", "status": 404, "detail": "Nada", "correlationId": "r-2"}, NotFound, "Nada"),
        (401, {"error": "invalid_client", "error_description": "wrong"}, Unauthorized, "wrong"),
    ],
)  # fmt: skip
def test_refusals_of_the_central_banks_api_and_of_oauth_are_certain(
    status: int, body: dict[str, Any], kind: type[ApiError], message: str
) -> None:
    refusal = Answer(status=status, headers={"x-request-id": "r-2"}, content=json.dumps(body).encode())
    with pytest.raises(kind) as failed:
        World(refusal, refusal).ask(CREATE)
    error = failed.value
    assert (error.status, error.message, error.request_id, error.may_have_happened) == (status, message, "r-2", False)
    assert error.details == {name: value for name, value in body.items() if name not in {"detail", "correlationId"}}


def test_an_id_is_made_before_the_first_try_and_told_with_an_error() -> None:
    call = Charges.create.build(None, 1, "loja@pix.example")
    world = World(LOST, retries=0)
    with pytest.raises(NoAnswer) as failed:
        world.ask(call)
    assert failed.value.external_id == json.loads(world.sent[0].content or b"")["external_id"]
    assert len(failed.value.external_id or "") == 32


@pytest.mark.parametrize(
    ("outcomes", "may_have_happened"),
    [
        ((UNREACHED, UNREACHED), False),
        ((refused(503, "SERVICE_UNAVAILABLE"), refused(422, "HOLDER_BLOCKED")), False),
        ((LOST, UNREACHED), True),
        ((LOST, refused(422, "INSUFFICIENT_FUNDS")), True),
        ((refused(504, "OUTCOME_UNKNOWN"), refused(429, "RATE_LIMITED")), True),
    ],
)
def test_an_error_says_if_a_try_may_have_had_its_effect(outcomes: tuple[Any, ...], may_have_happened: bool) -> None:
    with pytest.raises(PixConnectError) as failed:
        World(*outcomes, retries=1).ask(CREATE)
    assert failed.value.may_have_happened is may_have_happened


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_to_another_address_is_not_asked_for(name: str) -> None:
    world = World(done())
    with pytest.raises(InvalidArgument, match=r"externalId: .* cannot be part of a URL path"):
        world.ask(Charges.get_by_external_id.build(None, name))
    assert world.sent == []


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_could_not_be_found_again_is_not_given(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"external_id: .* could not be found again"):
        Charges.create.build(None, 1, "loja@demo.pix.example", external_id=name)


def test_a_due_date_is_no_instant() -> None:
    with pytest.raises(InvalidArgument, match="due_on: must be a date in Sao Paulo"):
        Charges.create_due.build(None, 1, "loja@demo.pix.example", datetime.now(UTC), ChargePayer(name="Ana", tax_id="1"))


def test_half_a_character_is_not_sent() -> None:
    world = World(done(), done())
    for name, call in (("body", Charges.create.build(None, 1, "\ud800")), ("path", Charges.get_by_txid.build(None, "\ud800"))):
        with pytest.raises(InvalidArgument, match="half a surrogate pair"):
            world.ask(call)
        assert world.sent == [], name


def test_one_text_is_not_taken_for_its_letters() -> None:
    call = Endpoints.create.build(None, "https://shop.example/", "qrcode.approved")
    opened = Sandbox.open_holder.build(None, scopes="charge.read")
    assert isinstance(call.body, dict)
    assert isinstance(opened.body, dict)
    assert (call.body["event_types"], opened.body["scopes"]) == (["qrcode.approved"], ["charge.read"])
    assert Events.feed.build(None, event_types="qrcode.approved").query["event_types"] == "qrcode.approved"


def test_a_read_changes_nothing_however_it_fails() -> None:
    with pytest.raises(NoAnswer) as failed:
        World(LOST, retries=0).ask(READ)
    assert not failed.value.may_have_happened


def test_waits_double_up_to_a_limit_and_add_to_what_the_service_asks_for() -> None:
    world = World(*[UNREACHED] * 7, done(), retries=7)
    world.ask(READ)
    assert world.waits == [0.25, 0.5, 1, 2, 4, 8, 8]
    world = World(refused(429, "RATE_LIMITED", **{"retry-after": "7"}), done())
    world.ask(READ)
    assert world.waits == [7.25]


def test_who_is_asked_to_wait_for_long_is_told_at_once() -> None:
    with pytest.raises(RateLimited) as failed:
        World(refused(429, "RATE_LIMITED", **{"retry-after": "61"})).ask(READ)
    assert failed.value.retry_after_s == 61


def test_a_refused_token_is_replaced_once() -> None:
    world = World(refused(401, "UNAUTHORIZED"), done(ENDPOINT))
    assert world.ask(ADD_ENDPOINT).id == 7
    assert [step.headers["Authorization"] for step in world.sent] == ["Bearer token-1", "Bearer token-2"]
    world = World(refused(401, "UNAUTHORIZED"), refused(401, "UNAUTHORIZED"))
    with pytest.raises(Unauthorized):
        world.ask(CREATE)
    assert len(world.sent) == 2


@pytest.mark.parametrize(("lifetime_s", "renewed_after_s"), [(300, 270), (40, 20)])
def test_a_token_is_renewed_before_it_ends(lifetime_s: int, renewed_after_s: int) -> None:
    world = World(*[done()] * 4, lifetime_s=lifetime_s)
    for passed_s, tokens_count in ((0, 1), (renewed_after_s - 1, 1), (1, 2), (10_000, 3)):
        world.now_s += passed_s
        world.ask(READ)
        assert world.tokens_count == tokens_count, passed_s


def test_a_login_is_tried_again_whatever_it_is_for() -> None:
    world = World(done(ENDPOINT))
    world.logins = [LOST, refused(429, "RATE_LIMITED", **{"retry-after": "2"})]
    assert world.ask(ADD_ENDPOINT).id == 7
    assert world.waits == [0.25, 2.5]


def test_a_login_that_fails_says_that_nothing_was_sent() -> None:
    world = World(retries=1)
    world.logins = [LOST, LOST]
    with pytest.raises(NoAnswer) as failed:
        world.ask(CREATE)
    assert (failed.value.is_of_login, failed.value.may_have_happened, world.sent) == (True, False, [])
    world.logins = [refused(401, "UNAUTHORIZED")]
    with pytest.raises(Unauthorized):
        world.ask(CREATE)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"data": {"id": "seven"}}', b"\xff"])
def test_an_answer_that_is_none_of_the_service_is_no_answer(content: bytes) -> None:
    with pytest.raises(NoAnswer, match="not from this service") as failed:
        World(Answer(status=200, headers={}, content=content)).ask(CREATE)
    assert failed.value.may_have_happened


def test_a_redirect_is_no_answer_and_is_not_followed() -> None:
    world = World(Answer(status=302, headers={"location": "https://elsewhere.example"}, content=b""))
    with pytest.raises(NoAnswer, match="302"):
        world.ask(READ)
    assert len(world.sent) == 1


def test_what_a_later_service_adds_is_taken_as_it_comes() -> None:
    charge = World(done({**CHARGE, "status": "FROZEN", "colour": "blue"})).ask(READ)
    assert charge.status == "FROZEN"
    assert str(charge.status) == "FROZEN"
    with pytest.raises(InvalidRequest) as failed:
        World(refused(422, "TOO_BLUE")).ask(CREATE)
    assert failed.value.code == "TOO_BLUE"


def test_an_event_of_a_later_family_comes_as_it_is() -> None:
    event = dict(id=1, name="dispute.opened", payload={"a": 1}, create_timestamp="2026-11-20T12:00:05Z")
    charge = {**event, "name": "qrcode.frozen", "payload": PAYLOAD}
    pages = dict(page=1, page_size=2, total_items=2, total_pages=1, has_next=False, has_prev=False)
    content = json.dumps({"data": [event, charge], "pagination": pages}).encode()
    other, known = World(Answer(status=200, headers={}, content=content)).ask(Events.list.build(None)).items
    assert isinstance(other, OtherEvent)
    assert (other.name, other.payload) == ("dispute.opened", {"a": 1})
    assert isinstance(known, ChargeEvent)
    assert known.payload.status == "FROZEN"


def test_an_error_can_be_sent_to_another_process() -> None:
    with pytest.raises(ApiError) as failed:
        World(refused(422, "HOLDER_BLOCKED")).ask(CREATE)
    again = pickle.loads(pickle.dumps(failed.value))  # noqa: S301  it is our own
    assert (str(again), vars(again)) == (str(failed.value), vars(failed.value))


def test_nothing_secret_is_shown() -> None:
    world = World(done())
    world.ask(READ)
    assert "token-1" not in repr(world.sent)
    assert "a&b" not in repr(world.core)


@pytest.mark.parametrize(
    "url",
    [
        "pix.example",
        "ftp://pix.example",
        "https://",
        "https://pix.example/?a=b",
        "",
        "http://pix.example:x",
        "http://[::1",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Core(url, "me", "a&b", auth_url=None, timeout_s=30, retries=4)


@pytest.mark.parametrize("given", [None, "my first webhook secret"])
def test_a_created_endpoint_has_the_secret_that_was_sent(given: str | None) -> None:
    world = World(done(ENDPOINT))
    made = world.ask(Endpoints.create.build(None, "https://shop.example/pix", ["qrcode.approved"], secret=given))
    assert made.secret == json.loads(world.sent[0].content or b"")["secret"] == (given or made.secret)
    assert made.id == ENDPOINT["id"]
    assert given or re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", made.secret)


def test_help_shows_the_parameters_of_an_operation() -> None:
    made = "(url: 'str', event_types: 'Sequence[str]', *, secret: 'str | None' = None) -> 'NewEndpoint'"
    assert str(inspect.signature(Endpoints.create)) == made
    assert str(inspect.signature(Charges.list)).endswith("-> 'Items[Charge]'")
    assert " create(url: 'str', " in pydoc.render_doc(Endpoints, renderer=pydoc.plaintext)
