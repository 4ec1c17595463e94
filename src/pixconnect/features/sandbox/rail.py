"""The rail and its control, as a client of the sandbox over HTTP.

Each outcome means the same as for any rail:

- a refused connection, or 503: nothing was done (``NotTaken``, ``RailUnavailable``);
- a lost answer, a timeout, any other failure after a send: the outcome is unknown (``Unknown``, or a ``None`` in a group's
  answers; ``SandboxSilent``);
- a submission refused as a duplicate (ED05) or for its time (FF08): it may be a retry of an order that settled, so the worker
  queries it (``AlreadyKnown``). The same codes in a report or a query are a rejection.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from pixconnect.features.sandbox.rules import (
    Answered,
    Asked,
    ControlCall,
    Failure,
    LookupAnswers,
    LookupQuestion,
    SandboxKeyRefused,
    SandboxRefusal,
    SandboxSilent,
    SandboxUnavailable,
)
from pixconnect.kernel.flows.report import make_decoder
from pixconnect.kernel.rules import rail
from pixconnect.kernel.rules.rail import Message, MessageAnswer, MessageKind
from pixconnect.platform.flow.batches import Batches
from pixconnect.platform.http.client import HEAD_MAX, ConnectionFailed, HttpConnection
from pixconnect.platform.shared_look import SharedTimeout

CONNECT_TIMEOUT_S: Final = 5.0
TOTAL_TIMEOUT_S: Final = 10.0
SUBMIT_TIMEOUT_S: Final = 3.0
CONNECTIONS_MAX: Final = 256
# Below the 75 s after which the sandbox closes an idle connection, so that it does not close one in use.
IDLE_S: Final = 60.0
GROUP_MAX: Final = 256  # orders, queries or acknowledgements in one request

ANSWER_LENGTH_MAX: Final = 4 * 1024 * 1024

_ASK_ABOUT: Final = frozenset({"ED05", "FF08"})
_ALREADY_KNOWN: Final = rail.AlreadyKnown()
_NOT_TAKEN: Final = rail.NotTaken()
_UNKNOWN: Final = rail.Unknown()

Decoded = TypeVar("Decoded")
Item = TypeVar("Item")

_encode = msgspec.json.Encoder().encode
_submit_answers = msgspec.json.Decoder(list[rail.SubmitAnswer | None])
_query_answers = msgspec.json.Decoder(list[rail.QueryAnswer])
_instant = msgspec.json.Decoder(datetime | None)
_settled = msgspec.json.Decoder(list[rail.SettledItem])
_position = msgspec.json.Decoder(rail.Position)
_entry = msgspec.json.Decoder(rail.DirectoryEntry)


_Alone = Literal["alone"]
_ALONE: Final[_Alone] = "alone"
_lookup_answers = msgspec.json.Decoder(LookupAnswers)
_failure = msgspec.json.Decoder(Failure)


class _NothingSentError(Exception):
    """The sandbox was not reached, or reports that it has done nothing."""


class _KeyRefusedError(_NothingSentError):
    """The sandbox has another key."""


class _UnknownOutcomeError(Exception):
    """The outcome is unknown."""


class SandboxConnection:
    """Keep-alive connections to the sandbox, for one event loop."""

    def __init__(self, url: str, secret: str, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        parts = urlsplit(url)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._head = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {secret}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._semaphore = asyncio.Semaphore(CONNECTIONS_MAX)
        # With the loop's time since when each is idle, latest last.
        self._idle: list[tuple[float, HttpConnection]] = []
        self._is_closed = False

    async def close(self) -> None:
        """Close all connections; one in use is closed after its answer."""
        self._is_closed = True
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()

    async def ask(self, method: str, path: str, body: bytes = b"", *, total_s: float = TOTAL_TIMEOUT_S) -> tuple[int, bytes]:
        """Send a request and return the answer's status (2xx, 4xx) and body."""
        request = f"{method} {path}{self._head}{len(body)}\r\n\r\n".encode("ascii") + body
        try:
            async with asyncio.timeout(total_s), self._semaphore:
                connection = await self._connection()
                answer = await connection.exchange(request)
        except ConnectionFailed as error:
            # A kept connection may have been cut with our request in it, so not even an empty answer proves that it was not
            # read.
            raise _UnknownOutcomeError(error.reason) from error
        except TimeoutError as error:
            raise _UnknownOutcomeError(f"no answer within {total_s:g} s") from error
        if self._is_closed:
            connection.close()
        elif connection.is_reusable:
            self._idle.append((asyncio.get_running_loop().time(), connection))
        # The sandbox always sends a length, so that a truncated answer is detected.
        if answer.status_code != 204 and answer.headers.get("content-length") != str(len(answer.body)):
            raise _UnknownOutcomeError(answer.error or "the answer has no content-length, or is too long")
        if answer.status_code in (401, 503):
            failure = _KeyRefusedError if answer.status_code == 401 else _NothingSentError
            raise failure(f"the sandbox answered {answer.status_code}")
        if answer.status_code >= 500:
            raise _UnknownOutcomeError(f"the sandbox answered {answer.status_code}")
        return answer.status_code, answer.body

    async def _connection(self) -> HttpConnection:
        idle_since_s = asyncio.get_running_loop().time() - self._idle_s
        while self._idle:
            used_s, connection = self._idle.pop()
            if connection.is_reusable and used_s > idle_since_s:
                return connection
            connection.close()
        return await self._connect()

    async def _connect(self) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(ANSWER_LENGTH_MAX, self._host, ANSWER_LENGTH_MAX + HEAD_MAX),
                    self._host,
                    self._port,
                    ssl=self._tls,
                )
        except (TimeoutError, OSError) as error:
            raise _NothingSentError(f"no connection: {error or type(error).__name__}") from error
        return connection


class SandboxRail:
    """The rail (``kernel.rules.rail.Rail``) that is the sandbox."""

    abilities = rail.Abilities(contests="theirs", defence_length_max=1000)

    def __init__(self, connection: SandboxConnection) -> None:
        self._connection = connection
        self._lookups = Batches(self._look_up, GROUP_MAX)
        self._lookup_timeout = SharedTimeout(TOTAL_TIMEOUT_S)

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> rail.DirectoryEntry | None:
        question = LookupQuestion(key, payer_tax_id, end_to_end_id)
        try:
            # For the batch before it and its own together.
            with self._lookup_timeout.begin():
                found = await self._lookups.ask(question)
        except TimeoutError as error:
            raise rail.RailUnavailable(f"no answer within {TOTAL_TIMEOUT_S:g} s") from error
        if not isinstance(found, str):
            return found
        status, body = await self._ask("/rail/lookup", question)
        return None if status == 404 else _read(_entry, status, body, rail.RailUnavailable)

    # Every transfer has its own query, under its own id, as the scheme requires: nothing is cached.
    async def _look_up(self, questions: Sequence[LookupQuestion]) -> list[rail.DirectoryEntry | _Alone | None]:
        status, body = await self._ask("/rail/lookups", questions)
        answers = _read(_lookup_answers, status, body, rail.RailUnavailable)
        found: dict[str, rail.DirectoryEntry | _Alone] = {entry.key: entry for entry in answers.entries}
        found.update(dict.fromkeys(answers.alone, _ALONE))
        return [found.get(question.key) for question in questions]

    async def submit(self, orders: Sequence[rail.Order]) -> list[rail.SubmitAnswer]:
        return [answer for group in _groups(orders) for answer in await self._submit("/rail/orders", group)]

    async def submit_refunds(self, orders: Sequence[rail.RefundOrder]) -> list[rail.SubmitAnswer]:
        return [answer for group in _groups(orders) for answer in await self._submit("/rail/refund-orders", group)]

    async def query(self, ids: Sequence[str]) -> list[rail.QueryAnswer]:
        return [answer for group in _groups(ids) for answer in await self._query(group)]

    async def send(self, kind: MessageKind[Message, MessageAnswer], messages: Sequence[Message]) -> list[MessageAnswer]:
        return [answer for group in _groups(messages) for answer in await self._send(kind, group)]

    async def _send(self, kind: MessageKind[Message, MessageAnswer], group: Sequence[Message]) -> list[MessageAnswer]:
        try:
            status, body = await self._connection.ask("POST", f"/control/{kind.name}", _encode(group), total_s=SUBMIT_TIMEOUT_S)
            answers = _read(msgspec.json.Decoder(kind.answers), status, body, _UnknownOutcomeError)
        except (_NothingSentError, _UnknownOutcomeError):
            answers = []
        return answers if len(answers) == len(group) else [kind.unknown for _ in group]

    async def reports(self, wait_s: float) -> list[rail.Report]:
        status, body = await self._ask("/rail/reports", {"wait_s": wait_s}, total_s=wait_s + TOTAL_TIMEOUT_S)
        return _read(make_decoder(), status, body, rail.RailUnavailable)

    async def waiting_since(self) -> datetime | None:
        """When the oldest report was made that waits for our acknowledgement."""
        status, body = await self._ask("/rail/waiting", method="GET")
        return _read(_instant, status, body, rail.RailUnavailable)

    async def acknowledge(self, acknowledgements: Sequence[rail.Acknowledgement]) -> None:
        for group in _groups(acknowledgements):
            status, body = await self._ask("/rail/acknowledgements", group)
            _check(status, body, rail.RailUnavailable)

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[rail.SettledItem]]:
        after_id = ""
        while True:
            status, body = await self._ask("/rail/statement", {"since": since, "until": until, "after_id": after_id})
            items = _read(_settled, status, body, rail.RailUnavailable)
            if not items:
                return
            yield items
            # The next page begins behind the last item: it was the latest.
            since, after_id = items[-1].settled_at, items[-1].id

    async def position(self) -> rail.Position:
        status, body = await self._ask("/rail/position", method="GET")
        return _read(_position, status, body, rail.RailUnavailable)

    async def check(self) -> None:
        status, body = await self._ask("/rail/check", method="GET")
        _check(status, body, rail.RailUnavailable)

    async def _query(self, ids: Sequence[str]) -> list[rail.QueryAnswer]:
        status, body = await self._ask("/rail/query", ids)
        answers = _read(_query_answers, status, body, rail.RailUnavailable)
        if len(answers) != len(ids):
            raise rail.RailUnavailable("the sandbox answered a different number of questions than we asked")
        return answers

    async def _submit(self, path: str, orders: Sequence[rail.Order] | Sequence[rail.RefundOrder]) -> list[rail.SubmitAnswer]:
        try:
            status, body = await self._connection.ask("POST", path, _encode(orders), total_s=SUBMIT_TIMEOUT_S)
            answers = _read(_submit_answers, status, body, _UnknownOutcomeError)
        except _NothingSentError:
            return [_NOT_TAKEN for _ in orders]
        except _UnknownOutcomeError:
            return [_UNKNOWN for _ in orders]
        if len(answers) != len(orders):
            return [_UNKNOWN for _ in orders]
        return [_meaning(answer) for answer in answers]

    async def _ask(
        self, path: str, asked: object = None, *, method: str = "POST", total_s: float = TOTAL_TIMEOUT_S
    ) -> tuple[int, bytes]:
        try:
            return await self._connection.ask(method, path, b"" if asked is None else _encode(asked), total_s=total_s)
        except (_NothingSentError, _UnknownOutcomeError) as error:
            failure = rail.RailRefusesKey if isinstance(error, _KeyRefusedError) else rail.RailUnavailable
            raise failure(str(error)) from error


class HttpSandboxControl:
    """The control (``features.sandbox.rules.SandboxControl``) of the sandbox."""

    def __init__(self, connection: SandboxConnection) -> None:
        self._connection = connection

    async def call(self, what: ControlCall[Asked, Answered], asked: Asked) -> Answered:
        try:
            status, body = await self._connection.ask("POST", f"/control/{what.name}", _encode(asked), total_s=what.timeout_s)
        except _NothingSentError as error:
            failure = SandboxKeyRefused if isinstance(error, _KeyRefusedError) else SandboxUnavailable
            raise failure(str(error)) from error
        except _UnknownOutcomeError as error:
            raise SandboxSilent(str(error)) from error
        if status in (400, 422):
            refused = _read(_failure, 200, body, SandboxUnavailable)
            raise SandboxRefusal("unknown" if refused.error == "unknown" else "invalid", refused.message)
        return _read(msgspec.json.Decoder(what.answer), status, body, SandboxSilent)


def _groups(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[start : start + GROUP_MAX] for start in range(0, len(items), GROUP_MAX)]


def _meaning(answer: rail.SubmitAnswer | None) -> rail.SubmitAnswer:
    if answer is None:
        return _UNKNOWN
    return _ALREADY_KNOWN if isinstance(answer, rail.Rejected) and answer.code in _ASK_ABOUT else answer


def _check(status: int, body: bytes, failure: type[Exception]) -> None:
    if status >= 400:
        raise failure(f"the sandbox answered {status}: {body[:200].decode(errors='replace')}")


def _read(decoder: msgspec.json.Decoder[Decoded], status: int, body: bytes, failure: type[Exception]) -> Decoded:
    _check(status, body, failure)
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise failure(f"the sandbox's answer cannot be read: {error}") from error
