"""The sandbox over HTTP: the rail, the control of outside payers and receivers, and merchants' locations.

Every path needs the shared secret, except those for payers' institutions: a merchant's location and its keys. 503 always means
that nothing was done, and 500 that the outcome is unknown: the service decides about money by that.

Settlements are listed in the order of time, page by page. An order settles when it is due, without a write; an arrival from
outside settles when the service acknowledges it. Both tables are one list, with suspect payments while they are held.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, get_origin

import msgspec
import structlog
from msgspec import Meta, Struct

from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.network import outside
from pixconnect.features.sandbox.network.outside import Outside
from pixconnect.features.sandbox.rules import (
    Answered,
    Asked,
    CallRow,
    ControlCall,
    Failure,
    LookupAnswers,
    LookupQuestion,
    Message,
    SandboxRefusal,
    SandboxUnavailable,
)
from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.rail import Acknowledgement, Order, Position, RefundOrder, SettledItem
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.http.exchange import RESPONSE_BODY, RESPONSE_START, Receive, Scope, Send
from pixconnect.platform.outgoing_text import name_database_error

_encode: Final = msgspec.json.Encoder().encode

BODY_LENGTH_MAX: Final = 2 * 1024 * 1024  # a group of 256 orders is about 200 kB

JSON: Final = b"application/json"


class SandboxAnswer(Struct, frozen=True):
    status: int = 204
    body: bytes = b""
    content_type: bytes = JSON


Answering = Callable[[Outside, bytes], Awaitable[SandboxAnswer]]


class BodyTooLargeError(Exception):
    """The request's body is over ``BODY_LENGTH_MAX``."""


def failure(status: int, error: str, message: str) -> SandboxAnswer:
    return SandboxAnswer(status, _encode(Failure(error, message)))


async def read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_LENGTH_MAX:
            raise BodyTooLargeError
    return body


def _decoding(decode: Callable[[bytes], Asked], do: Callable[[Outside, Asked], Awaitable[object]]) -> Answering:
    async def answer(world: Outside, body: bytes) -> SandboxAnswer:
        return SandboxAnswer(200, _encode(await do(world, decode(body))))

    return answer


def _now(read: Callable[[Outside], Answered]) -> Callable[[Outside, None], Awaitable[Answered]]:
    """Answer from memory."""

    async def do(world: Outside, _: None) -> Answered:
        return read(world)

    return do


_OWN: Final = (
    CallRow(call=sandbox_control.PAY, do=outside.pay),
    CallRow(call=sandbox_control.JUDGE_CREDIT, do=outside.decide_suspect_credit),
    CallRow(call=sandbox_control.GIVE_BACK, do=outside.give_back),
    CallRow(call=sandbox_control.MOVE, do=outside.move),
    CallRow(call=sandbox_control.LIST_KEYS, do=outside.list_keys),
    CallRow(call=sandbox_control.ADD_KEY, do=outside.add_key),
    CallRow(call=sandbox_control.MAKE_QR_CODE, do=outside.make_qr_code),
    CallRow(call=sandbox_control.READ_FAULTS, do=_now(lambda world: world.faults.rules)),
    CallRow(call=sandbox_control.REPLACE_FAULTS, do=outside.replace_faults),
    CallRow(call=sandbox_control.DRAW_FAULT, do=outside.find_effect),
    CallRow(call=sandbox_control.READ_AUTHORITY, do=_now(lambda world: world.signer.authority_pem)),
    CallRow(call=sandbox_control.SET_OFFSET, do=lambda world, offset: world.network.set_offset(offset)),
    CallRow(call=sandbox_control.READ_DUE, do=_now(lambda world: world.network.due())),
)
GROUP_MAX: Final = 256
_Group = Meta(max_length=GROUP_MAX)


def _decode_call(call: ControlCall[Any, Any]) -> Callable[[bytes], Any]:
    is_list = get_origin(call.asked) is list
    return msgspec.json.Decoder(Annotated[call.asked, _Group] if is_list else call.asked).decode


CALLS: Final[Mapping[str, Answering]] = {
    row.call.name: _decoding(_decode_call(row.call), row.do) for row in (*_OWN, *gather("sandbox_calls", CallRow))
}


PAGE_SIZE: Final = 1000

# The next items before `$4`; of those that settled at `$2` the ones after `$3`.
# The conditions match the indexes `settlement_by_time` and `arrival_by_time`, so that a page costs the same anywhere. Arrivals
# from before there was `settled_at` count from their report.
READ_PAGE = """
(
    select id, kind, amount_cents, due_at as settled_at from settlement
    where code is null and (is_due or due_at < $1::timestamptz)
        and (due_at, id) > ($2::timestamptz, $3::text) and due_at < $4::timestamptz
    order by due_at, id limit $5
)
union all
(
    select id, kind, amount_cents, coalesce(settled_at, due_at) from arrival
    where code is null and not is_open
        and (coalesce(settled_at, due_at), id) > ($2, $3) and coalesce(settled_at, due_at) < $4
    order by coalesce(settled_at, due_at), id limit $5
)
union all
(
    select id || '/held', 'held', amount_cents, held_at from arrival
    where held_at is not null and (held_at, id || '/held') > ($2, $3) and held_at >= $2 and held_at < $4
    order by held_at, id limit $5
)
union all
(
    select id || '/hold_ended', 'hold_ended', amount_cents, hold_ended_at from arrival
    where hold_ended_at is not null and (hold_ended_at, id || '/hold_ended') > ($2, $3) and hold_ended_at >= $2
        and hold_ended_at < $4
    order by hold_ended_at, id limit $5
)
order by settled_at, id limit $5
"""

READ_POSITION = """
select (
    (
        select coalesce(sum(case kind when 'movement_out' then -amount_cents else amount_cents end), 0)
        from arrival where code is null and not is_open
    )
    + (select coalesce(sum(amount_cents), 0) from arrival where held_at is not null and hold_ended_at is null)
    - (select coalesce(sum(amount_cents), 0) from settlement where code is null and (is_due or due_at < $1::timestamptz))
)::bigint
"""


WAIT_MAX_S: Final = 30.0
_log = structlog.get_logger()


class ReportQuestion(Struct, frozen=True, kw_only=True):
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_MAX_S)]


class StatementQuestion(Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    after_id: str = ""  # among transfers that settled at ``since``, only those with a higher id than this


_orders = msgspec.json.Decoder(Annotated[list[Order], _Group]).decode
_refund_orders = msgspec.json.Decoder(Annotated[list[RefundOrder], _Group]).decode
_ids = msgspec.json.Decoder(Annotated[list[str], _Group]).decode
_acknowledgements = msgspec.json.Decoder(Annotated[list[Acknowledgement], _Group]).decode
_lookup_question = msgspec.json.Decoder(LookupQuestion).decode
_lookup_questions = msgspec.json.Decoder(Annotated[list[LookupQuestion], _Group]).decode
_statement_question = msgspec.json.Decoder(StatementQuestion).decode


class SandboxApplication:
    def __init__(self, world: Outside, secrets: Sequence[str]) -> None:
        self._world = world
        self._bearers = [f"Bearer {secret}".encode() for secret in secrets]
        self._working: set[asyncio.Future[SandboxAnswer]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._answer(scope, receive)
        headers = [(b"content-length", str(len(answer.body)).encode())]
        if answer.body:
            headers.append((b"content-type", answer.content_type))
        await send({"type": RESPONSE_START, "status": answer.status, "headers": headers})
        await send({"type": RESPONSE_BODY, "body": answer.body})

    def release(self) -> None:
        self._world.network.release()

    async def _answer(self, scope: Scope, receive: Receive) -> SandboxAnswer:
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        if method == "GET" and (path == "/jwks" or path.startswith("/qr/")):
            return await self._guard(path, self._serve_public(path))
        # Compared in constant time, so that the secret cannot be guessed byte by byte.
        is_allowed = any(
            name == b"authorization" and hmac.compare_digest(value, bearer)
            for name, value in scope["headers"]
            for bearer in self._bearers
        )
        if not is_allowed:
            return failure(401, "unauthorized", "the sandbox's secret is missing or wrong")
        try:
            body = await read_body(receive)
        except BodyTooLargeError:
            return failure(413, "invalid", "the body is too large")
        if path == "/rail/reports":
            # Unlike the others, not finished after its caller has gone: reports sent to a lost caller would come 5 s late.
            return await self._guard(path, _reports(self._world, body))
        handler = _ROUTES.get((method, path)) or CALLS.get(path.removeprefix("/control/"))
        if handler is None:
            return failure(404, "invalid", "there is no such path")
        # Completed even if the client disconnects: an order must not be half executed.
        working = asyncio.ensure_future(self._guard(path, handler(self._world, body)))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        return await asyncio.shield(working)

    async def _guard(self, path: str, answering: Awaitable[SandboxAnswer]) -> SandboxAnswer:
        try:
            return await answering
        except msgspec.MsgspecError as error:
            return failure(400, "invalid", str(error))
        except SandboxRefusal as refusal:
            return failure(422, refusal.reason, refusal.message)
        except SandboxUnavailable as error:
            return failure(503, "unavailable", str(error))
        except DATABASE_FAILED as error:
            _log.warning("sandbox_database_failed", path=path, reason=name_database_error(error))
            return failure(500, "internal", "the database did not answer: the request may have taken effect")

    async def _serve_public(self, path: str) -> SandboxAnswer:
        if path == "/jwks":
            return SandboxAnswer(200, self._world.signer.jwk_set, b"application/jwk-set+json")
        jws = await outside.serve_location(self._world, path.removeprefix("/qr/"))
        if jws is None:
            return failure(404, "unknown", "there is no charge at this location")
        return SandboxAnswer(200, jws.encode(), b"application/jose")


async def _look_up(world: Outside, body: bytes) -> SandboxAnswer:
    question = _lookup_question(body)
    entry = await outside.look_up(world, question.key, question.end_to_end_id)
    return failure(404, "unknown", "no such key") if entry is None else SandboxAnswer(200, _encode(entry))


async def _look_up_together(world: Outside, body: bytes) -> SandboxAnswer:
    keys = {question.key for question in _lookup_questions(body)}
    # Those for which a fault rule may change the answer.
    alone = {key for key in keys if world.faults.concerns(Message(operation="lookup", id="", key=key))}
    entries = await outside.find_entries(world, keys - alone)
    return SandboxAnswer(200, _encode(LookupAnswers(entries=entries, alone=sorted(alone))))


_reports: Final = _decoding(
    msgspec.json.Decoder(ReportQuestion).decode, lambda world, question: world.network.outbox.take(question.wait_s)
)


async def _acknowledge(world: Outside, body: bytes) -> SandboxAnswer:
    await world.network.acknowledge(_acknowledgements(body))
    return SandboxAnswer()


async def _read_statement(world: Outside, body: bytes) -> SandboxAnswer:
    _check_reachable(world)
    question = _statement_question(body)
    async with world.network.settled() as (connection, now):
        rows = await connection.fetch(READ_PAGE, now, question.since, question.after_id, question.until, PAGE_SIZE)
    return SandboxAnswer(200, _encode([SettledItem(**row) for row in rows]))


async def _read_position(world: Outside, _body: bytes) -> SandboxAnswer:
    _check_reachable(world)
    async with world.network.settled() as (connection, now):
        position = Position(amount_cents=await connection.fetchval(READ_POSITION, now), as_of=now)
    return SandboxAnswer(200, _encode(position))


def _check_reachable(world: Outside) -> None:
    if world.faults.hides_everything:
        raise SandboxUnavailable("a fault rule says that the network cannot be reached")


async def _check(world: Outside, _body: bytes) -> SandboxAnswer:
    _check_reachable(world)
    await world.pool.execute("select 1")
    return SandboxAnswer()


async def _waiting_since(world: Outside, _body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(world.network.outbox.waiting_since()))


_ROUTES: Final[Mapping[tuple[str, str], Answering]] = {
    ("POST", "/rail/lookup"): _look_up,
    ("POST", "/rail/lookups"): _look_up_together,
    ("POST", "/rail/orders"): _decoding(_orders, lambda world, orders: world.network.submit(orders)),
    ("POST", "/rail/refund-orders"): _decoding(_refund_orders, lambda world, orders: world.network.submit_refunds(orders)),
    ("POST", "/rail/query"): _decoding(_ids, lambda world, ids: world.network.query(ids)),
    ("POST", "/rail/acknowledgements"): _acknowledge,
    ("GET", "/rail/waiting"): _waiting_since,
    ("POST", "/rail/statement"): _read_statement,
    ("GET", "/rail/position"): _read_position,
    ("GET", "/rail/check"): _check,
}
