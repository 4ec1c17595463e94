"""The sandbox over HTTP: the rail, the control of outside payers and receivers, and merchants' locations.

Every path needs the shared secret, except what a payer's institution fetches: a merchant's location and its keys. 503 always
means that nothing was done, and 500 that nobody knows: the service decides about money by that.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
import structlog
from msgspec import Meta, Struct

from pixconnect.domain.money.block_report import Defence
from pixconnect.domain.money.rail import Acknowledgement, DirectoryEntry, Order, RefundOrder
from pixconnect.domain.simulation.sandbox_control import SandboxRefusal, SandboxUnavailable
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.exception_text import name_database_error
from pixconnect.http.asgi import Receive, Scope, Send
from pixconnect.sandbox import calls, contesting, http_messages, outside, statement
from pixconnect.sandbox.http_messages import SandboxAnswer
from pixconnect.sandbox.outside import Answering, Outside

GROUP_MAX: Final = 256
WAIT_MAX_S: Final = 30.0

_Group = Meta(max_length=GROUP_MAX)
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger()


class LookupQuestion(Struct, frozen=True, kw_only=True):
    key: str
    payer_tax_id: str
    end_to_end_id: str


class LookupAnswers(Struct, frozen=True, kw_only=True):
    """The directory's answers to questions that came together; a key that is in neither list has no entry."""

    entries: Sequence[DirectoryEntry]
    alone: Sequence[str]
    """Keys that must be asked for one by one: a fault rule applies to them, and their delay must not hold up the
    others."""


class ReportQuestion(Struct, frozen=True, kw_only=True):
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_MAX_S)]


class StatementQuestion(Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    after_id: str = ""
    """Among transfers that settled at ``since``, only those with a higher id than this."""


_orders = msgspec.json.Decoder(Annotated[list[Order], _Group]).decode
_refund_orders = msgspec.json.Decoder(Annotated[list[RefundOrder], _Group]).decode
_defences = msgspec.json.Decoder(Annotated[list[Defence], _Group]).decode
_ids = msgspec.json.Decoder(Annotated[list[str], _Group]).decode
_acknowledgements = msgspec.json.Decoder(Annotated[list[Acknowledgement], _Group]).decode
_report_question = msgspec.json.Decoder(ReportQuestion).decode
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
        await http_messages.send_answer(send, await self._answer(scope, receive))

    def release(self) -> None:
        """Answer everybody who waits: the process is about to end."""
        self._world.network.release()

    async def _answer(self, scope: Scope, receive: Receive) -> SandboxAnswer:
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        if method == "GET" and (path == "/jwks" or path.startswith("/qr/")):
            return await self._guard(path, self._serve_public(path))
        if not self._is_allowed(scope):
            return http_messages.failure(401, "unauthorized", "the sandbox's secret is missing or wrong")
        try:
            body = await http_messages.read_body(receive)
        except http_messages.BodyTooLargeError:
            return http_messages.failure(413, "invalid", "the body is too large")
        if path == "/rail/reports":
            # Not finished for nobody, as the others are: reports that are handed out to nobody come 5 s late.
            return await self._guard(path, _reports(self._world, body))
        handler = _ROUTES.get((method, path)) or calls.CALLS.get(path.removeprefix("/control/"))
        if handler is None:
            return http_messages.failure(404, "invalid", "there is no such path")
        # Done to its end even if the client disconnects: an order must not be taken by half.
        working = asyncio.ensure_future(self._guard(path, handler(self._world, body)))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        return await asyncio.shield(working)

    async def _guard(self, path: str, answering: Awaitable[SandboxAnswer]) -> SandboxAnswer:
        try:
            return await answering
        except msgspec.MsgspecError as error:
            return http_messages.failure(400, "invalid", str(error))
        except SandboxRefusal as refusal:
            return http_messages.failure(422, refusal.reason, refusal.message)
        except SandboxUnavailable as error:
            return http_messages.failure(503, "unavailable", str(error))
        except DATABASE_FAILED as error:
            _log.warning("sandbox_database_failed", path=path, reason=name_database_error(error))
            return http_messages.failure(
                500, "internal", "the database did not answer: the request may have taken effect"
            )

    async def _serve_public(self, path: str) -> SandboxAnswer:
        if path == "/jwks":
            return SandboxAnswer(200, self._world.signer.jwk_set, b"application/jwk-set+json")
        jws = await outside.serve_location(self._world, path.removeprefix("/qr/"))
        if jws is None:
            return http_messages.failure(404, "unknown", "there is no charge at this location")
        return SandboxAnswer(200, jws.encode(), b"application/jose")

    def _is_allowed(self, scope: Scope) -> bool:
        # Compared in constant time, so that the secret cannot be guessed byte by byte.
        return any(
            name == b"authorization" and hmac.compare_digest(value, bearer)
            for name, value in scope["headers"]
            for bearer in self._bearers
        )


async def _look_up(world: Outside, body: bytes) -> SandboxAnswer:
    question = _lookup_question(body)
    entry = await outside.look_up(world, question.key, question.end_to_end_id)
    return http_messages.failure(404, "unknown", "no such key") if entry is None else SandboxAnswer(200, _encode(entry))


async def _look_up_together(world: Outside, body: bytes) -> SandboxAnswer:
    keys = {question.key for question in _lookup_questions(body)}
    alone = {key for key in keys if outside.is_lookup_changed(world, key)}
    entries = await outside.find_entries(world, keys - alone)
    return SandboxAnswer(200, _encode(LookupAnswers(entries=entries, alone=sorted(alone))))


async def _submit(world: Outside, body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(await world.network.submit(_orders(body))))


async def _submit_refunds(world: Outside, body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(await world.network.submit_refunds(_refund_orders(body))))


async def _defend(world: Outside, body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(await contesting.hear_defences(world, _defences(body))))


async def _query(world: Outside, body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(await world.network.query(_ids(body))))


async def _reports(world: Outside, body: bytes) -> SandboxAnswer:
    return SandboxAnswer(200, _encode(await world.network.outbox.take(_report_question(body).wait_s)))


async def _acknowledge(world: Outside, body: bytes) -> SandboxAnswer:
    await world.network.acknowledge(_acknowledgements(body))
    return SandboxAnswer()


async def _read_statement(world: Outside, body: bytes) -> SandboxAnswer:
    _check_reachable(world)
    question = _statement_question(body)
    async with world.network.settled() as (connection, now):
        items = await statement.read_page(connection, now, question.since, question.after_id, question.until)
    return SandboxAnswer(200, _encode(items))


async def _read_position(world: Outside, _body: bytes) -> SandboxAnswer:
    _check_reachable(world)
    async with world.network.settled() as (connection, now):
        return SandboxAnswer(200, _encode(await statement.read_position(connection, now)))


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
    ("POST", "/rail/orders"): _submit,
    ("POST", "/rail/refund-orders"): _submit_refunds,
    ("POST", "/rail/defences"): _defend,
    ("POST", "/rail/query"): _query,
    ("POST", "/rail/acknowledgements"): _acknowledge,
    ("GET", "/rail/waiting"): _waiting_since,
    ("POST", "/rail/statement"): _read_statement,
    ("GET", "/rail/position"): _read_position,
    ("GET", "/rail/check"): _check,
}
