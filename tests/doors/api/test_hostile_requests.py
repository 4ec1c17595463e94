"""Requests that are made to be slow to parse cost few calls of Python, and are refused by a clear rule."""

import base64
import itertools
import json
from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import Application, make_application
from pixconnect.doors.api.decoding import FORM_FIELDS_MAX, FORM_MAX, PARAMETERS_MAX, READ_SLOWLY_MAX
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import COSTLY_EACH_MIN_S, EACH_S, LATER_MAX_S, RefusalPace
from pixconnect.platform.logging import AccessLog
from support.api import Api
from support.calls import CallCounter
from support.service import FakeClock, a_context

CHARGE = "/v1/connect/charge"
COB = "/pix/v2/cob"
TOKEN = "/oauth/token"
LOGIN = "/v1/iam/users/login"
FORM = "application/x-www-form-urlencoded"
LIMIT = 64 * 1024
CALLS_MAX = 40_000
"""Bodies below 8 KiB are read slowly, with at most four calls an octet; a reader of quadratic cost takes millions."""


def fill(head: bytes, part: bytes, tail: bytes, size: int) -> bytes:
    """A body of just under so many octets that repeats the part."""
    count = (size - len(head) - len(tail)) // len(part)
    return head + part * count + tail


def bombs(size: int) -> dict[str, bytes]:
    return {
        "empty objects": fill(b'{"x":[{}', b",{}", b"]}", size),
        "empty texts": fill(b'{"x":[""', b',""', b"]}", size),
        "empty objects and half a character": fill(b'{"x":[{}', b",{}", b',"\\ud800"]}', size),
        "depth": fill(b"", b"[", b"", size),
        "depth that is read": b'{"x":' + b"[" * 900 + b"]" * 900 + b"}",
        "a long number": fill(b'{"amount":', b"9", b"}", size),
        "a large exponent": b'{"amount":1e999999999}',
        "one name again and again": fill(b'{"a":1', b',"a":1', b"}", size),
        "a known name again and again": fill(b'{"amount":"x"', b',"amount":1', b"}", size),
        "many names": b"{" + b",".join(b'"%d":1' % number for number in range(size // 12)) + b"}",
        "half characters": fill(b'{"x":"', b"\\ud800", b'"}', size),
        "NUL at the end": fill(b'{"x":"', b"a", b'\\u0000"}', size),
    }


REQUESTS: dict[str, tuple[str, str, bytes, dict[str, Any]]] = {
    **{
        f"{name}, {size} octets at {path}": ("POST", path, body, {})
        for size in (READ_SLOWLY_MAX - 1, LIMIT)
        for path in (CHARGE, COB)
        for name, body in bombs(size).items()
    },
    **{
        f"{len(body)} octets of a form ({body[:6]!r}) at {path}": ("POST", path, body, {"token": None, "content_type": FORM})
        for body in (b"&" * LIMIT, b"&" * FORM_MAX, b"%41" * (FORM_MAX // 3), b"a=%41&" * (FORM_FIELDS_MAX - 1))
        for path in (TOKEN, LOGIN)
    },
    "a query of many": ("GET", f"{CHARGE}/list?" + "a&" * 7000, b"", {}),
    "a query of many at the other door": ("GET", f"{COB}?" + "a&" * 7000, b"", {}),
    "a long path": ("GET", "/v1/connect/charge/external-id/" + "%41" * 5000, b"", {"token": None}),
    "many segments": ("GET", "/v1" + "/a" * 7000, b"", {"token": None}),
    "long credentials": (
        "POST",
        TOKEN,
        b"grant_type=client_credentials",
        {
            "token": None,
            "content_type": FORM,
            "headers": {"authorization": "Basic " + base64.b64encode(b"%41" * 3000 + b":s").decode()},
        },
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_request_costs_much_before_it_is_refused(api: Any, name: str) -> None:
    method, target, body, options = REQUESTS[name]
    with CallCounter() as counter:
        await api.call(method, target, body, **options)
    assert counter.count <= CALLS_MAX


async def test_forms_and_queries_are_counted_and_told_their_bounds(api: Any) -> None:
    fields = b"&".join(b"f%d=1" % number for number in range(FORM_FIELDS_MAX + 1))
    form: dict[str, Any] = {"token": None, "content_type": FORM}
    answer = await api.call("POST", LOGIN, fields, **form)
    assert (answer.status, answer.message) == (400, "body: a form must have at most 4096 bytes and 32 fields")
    answer = await api.call("POST", LOGIN, b"a" * (FORM_MAX + 1), **form)
    assert (answer.status, answer.message) == (413, "body: must have at most 4096 bytes")
    answer = await api.call("POST", TOKEN, [b"a" * 3000, b"a" * 3000], **form)
    assert (answer.status, answer.body["error"]) == (413, "invalid_request")
    answer = await api.get(f"{CHARGE}/list?" + "&".join(f"a{at}" for at in range(PARAMETERS_MAX + 1)))
    assert (answer.status, answer.message) == (400, "query: must have at most 64 parameters")


async def test_a_long_body_is_refused_by_the_rule_without_the_place(api: Any) -> None:
    def wrong(size: int) -> bytes:
        raw = json.dumps({"amount": "1", "key": "loja@sandbox.pix.example"}).encode()
        return raw + b" " * (size - len(raw))

    assert (await api.call("POST", CHARGE, wrong(READ_SLOWLY_MAX - 1))).message.startswith("amount: must be an integer")
    answer = await api.call("POST", CHARGE, wrong(READ_SLOWLY_MAX))
    assert (answer.status, answer.code) == (400, "BAD_REQUEST")
    assert answer.message.startswith("body: must be valid JSON of the declared form")


async def test_a_long_body_with_whole_characters_that_are_escaped_is_right(api: Any, use_cases: Any) -> None:
    raw = json.dumps({"amount": 1, "key": "loja@sandbox.pix.example", "external_id": "\N{OK HAND SIGN}"}).encode()
    answers = [await api.call("POST", CHARGE, raw + b" " * count) for count in (0, READ_SLOWLY_MAX)]
    assert [answer.status for answer in answers] == [404, 404], "the stub's own word"


def test_a_header_of_a_token_that_nests_too_deep_is_no_token() -> None:
    header = base64.urlsafe_b64encode(b'{"x":' + b"[" * 2900).rstrip(b"=")
    with pytest.raises(jose.TokenInvalid):
        jose.read_token_kid(header + b".e30.e30")


@pytest.mark.parametrize(
    ("status", "cost_s", "is_known", "interval_s"),
    [
        *[(status, 0.1, False, EACH_S) for status in (400, 401, 404, 405, 413, 415, 422, 429, 503)],
        *[(status, 0.1, True, EACH_S) for status in (401, 403, 429, 503)],
        *[(status, 0.01, True, 0.2) for status in (400, 405, 413, 415, 422)],
        *[(status, 0.1, True, LATER_MAX_S) for status in (400, 405, 413, 415, 422)],
        *[(status, 0.00001, True, COSTLY_EACH_MIN_S) for status in (400, 422)],
        *[(status, 0.1, True, 0.0) for status in (200, 404, 410, 500, 504)],
        *[(status, 0.1, False, 0.0) for status in (200, 500, 504)],
    ],
)
def test_a_refusal_is_paced_by_what_it_cost(status: int, cost_s: float, is_known: bool, interval_s: float) -> None:
    assert RefusalPace().interval_s(status, cost_s, is_known=is_known) == pytest.approx(interval_s)


async def test_a_flood_of_malformed_bodies_is_told_later_and_later(services: Any) -> None:
    services = structs.replace(services, context=a_context(clock=FakeClock(monotonic_s=0.0)))
    api = Api(make_application(services, AccessLog(services.context.clock, wanted="off")), hangs_up=True)
    for _ in range(30):
        assert (await api.call("POST", LOGIN, b"a", token=None, content_type=FORM)).status == 400
    assert api.delays_s == pytest.approx([EACH_S * (number + 1) for number in range(10)])


async def test_no_body_is_read_of_a_holder_that_hangs_up_on_the_refusals_before(
    services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = structs.replace(services, context=a_context(clock=FakeClock(monotonic_s=0.0)))
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    api = Api(application, hangs_up=True)
    monkeypatch.setattr(RefusalPace, "interval_s", lambda *_, **__: 1.0)
    monkeypatch.setattr(Application, "_decode", refuse := _RefuseDearly())
    statuses = [(await api.post(CHARGE, b"{")).status for _ in range(5)]
    assert (statuses, refuse.count) == ([400, 400, 429, 429, 429], 2)


async def test_a_long_body_that_its_handler_refuses_is_paced_by_its_decoding(
    services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(clock, "monotonic_s", itertools.count().__next__)
    services = structs.replace(services, context=a_context(clock=clock))
    api = Api(make_application(services, AccessLog(services.context.clock, wanted="off")))
    costs_s: list[float] = []
    monkeypatch.setattr(RefusalPace, "interval_s", lambda _, status, cost_s, **__: costs_s.append(cost_s) or 0.0)
    lot = b'{"descricao": "a", "cobsv": [{"txid": "short"}]}'
    for body in (lot, lot + b" " * READ_SLOWLY_MAX):
        assert (await api.call("PUT", "/pix/v2/lotecobv/1", body)).status == 400
    assert costs_s[0] == 0 < costs_s[1]


class _RefuseDearly:
    """Stands for decoding: each body is malformed and slow to refuse."""

    count = 0

    def __call__(self, progress: Any, *_: object) -> None:
        self.count += 1
        progress.cost_s = 0.05
        raise errors.BadRequest("body: must be valid JSON")
