"""Calls to one account's institution, and the classification of their outcomes.

::

    budget ─► token ─► exchange ─► status ─► body

The status is read first: no body makes a success of a 503, and an HTML page decides nothing with any status.

| Outcome | of a reading call | of a changing call | |---|---|---| | no budget, no token, no connection; 429 |
``InstitutionUnavailable`` | ``NotSent`` | | timeout, oversized answer, 5xx, 3xx, no JSON | retried, then
``InstitutionUnavailable`` | ``UnknownOutcome`` | | expired token | retried once with a new one | retried once if the call is
idempotent | | anything else | its content | its content |

A repeated call is never ``NotSent``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.adapters import message
from pixconnect.features.institutions.adapters.connection import AnswerLost, NoConnection, Unsent
from pixconnect.features.institutions.adapters.token import CallParts, NoToken, Tokens
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.profiles.account_traits import Route
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionUnavailable, NotSent, UnknownOutcome
from pixconnect.platform.http.client import ReceivedAnswer

READ_PATIENCE_S: Final = 60.0
CHANGE_PATIENCE_S: Final = 1.0
_FILE_S: Final = 60.0
_REFUSED: Final = (401, 403)
_TRIED_FOR_S: Final = 5.0  # a call that took longer is not retried at once
_TRIED_AFTER_S: Final = 0.1
_WAITED_MAX_S: Final = 2.0  # if an institution asks for a longer pause, the caller gives up
_SECRET_LENGTH_MIN: Final = 4

TakenT = TypeVar("TakenT")


class Call(Struct, frozen=True):
    route: Route
    method: str
    path: str
    body: object = None
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    repeated_on: tuple[int, ...] = ()
    """Statuses of an expired token after which the call is repeated, since it is idempotent."""
    is_new: bool = False
    """Whether to use a new connection: a kept one may just be closing, which would leave the outcome unknown."""
    patience_s: float = CHANGE_PATIENCE_S  # maximum wait for its turn
    not_after_s: float | None = None
    """By the monotonic clock: a call not sent by then is not sent, however long its token or its turn took."""


class _Sent(Struct, frozen=True, kw_only=True):
    answer: ReceivedAnswer
    authorization: str

    def __repr__(self) -> str:
        return "_Sent(...)"


class Calls:
    """All calls of one account; its errors contain no secrets."""

    def __init__(self, parts: CallParts, tokens: Tokens) -> None:
        self._parts, self.tokens, self.paces = parts, tokens, parts.paces
        self._account, self._credential, self._traits = parts.account, parts.credential, parts.traits
        self._clock = parts.clock
        self._authorization = ""

    def close(self) -> None:
        self._parts.connection.close()
        self.tokens.forget(self._authorization)

    async def lacks(self, scope: str) -> bool:
        """Whether the institution has refused us this scope; without a token, the call itself shows it."""
        try:
            return await self.tokens.lacks(scope)
        except NoToken:
            return False

    async def read(
        self, route: Route, path: str, query: Mapping[str, str] | None = None, *, body_max: int = message.BODY_MAX
    ) -> message.Content:
        """Make a reading call and return the answer: a success, or a readable refusal."""
        call = Call(route, "GET", path, query=query or {})
        return await self._ask(call, body_max, lambda answer: message.read_answer(answer, self._clock.real_now()))

    async def fetch(self, route: Route, path: str) -> tuple[int, bytes]:
        """Fetch a file that is no JSON: the status and the octets."""
        return await self._ask(Call(route, "GET", path), message.FILE_MAX, _take_file)

    async def change(self, change: Call) -> message.Content | NotSent | UnknownOutcome:
        """Send a changing call once; never raises for the institution's behaviour."""
        sent = await self._send(change)
        if isinstance(sent, _Sent) and sent.answer.status_code in change.repeated_on:
            self.tokens.forget(sent.authorization)
            again = await self._send(change)
            # The first call may have been executed, although its answer was an error.
            sent = UnknownOutcome(reason=again.reason) if isinstance(again, NotSent) else again
        if not isinstance(sent, _Sent):
            return sent
        status = sent.answer.status_code
        if status in self._traits.token_ended:
            self.tokens.forget(sent.authorization)
        if not _is_conclusive(status):
            return UnknownOutcome(reason=f"the institution answered {status}")
        try:
            return message.read_answer(sent.answer, self._clock.real_now())
        except message.MalformedAnswer as error:
            return UnknownOutcome(reason=str(error))

    def describe(self, content: message.Content, *secrets: str) -> str:
        """Return the institution's answer for the operator: a short text without secrets."""
        answer = f"the institution answered {content.status} {content.name}".rstrip()
        text = f"{answer}: {content.text}" if content.text else answer
        known = (self._credential.client_secret, self._authorization.removeprefix("Bearer "), *secrets)
        for secret in known:
            # Shorter ones would blank out half of every text, and protect nothing.
            if len(secret) >= _SECRET_LENGTH_MIN:
                text = text.replace(secret, "***")
        return text

    def refuse(self, content: message.Content, *secrets: str) -> InstitutionUnavailable:
        """Raise for an answer that a reading call cannot use."""
        reason = self.describe(content, *secrets)
        return InstitutionUnavailable(reason, _as_wait(content.wait_s), is_refusal=content.status in _REFUSED)

    async def _send(self, change: Call) -> _Sent | NotSent | UnknownOutcome:
        body = None if change.body is None else msgspec.json.encode(change.body)
        try:
            authorization = await self._authorize()
            request = self._write(authorization, change, body)
            await self.paces.take(change.route, change.patience_s)
            if change.not_after_s is not None and self._clock.monotonic_s() > change.not_after_s:
                return NotSent(reason="it is too late for this call")
            answer = await self._exchange(request, message.BODY_MAX, is_new=change.is_new)
        except Unsent as failure:
            return NotSent(reason=failure.reason, retry_after=failure.retry_after)
        except ValueError as error:
            return NotSent(reason=str(error))
        except AnswerLost as error:
            return UnknownOutcome(reason=str(error))
        # The institution has not processed the call.
        if answer.status_code == 429:
            return NotSent(reason="the institution answered 429", retry_after=self._pause(change.route, answer))
        self.paces.note_success(change.route)
        return _Sent(answer=answer, authorization=authorization)

    async def _ask(self, call: Call, body_max: int, take: Callable[[ReceivedAnswer], TakenT]) -> TakenT:
        began_s = self._clock.monotonic_s()
        has_renewed, tried_max = False, self._parts.bounds.tried_max
        # One round more than there are tries: one of them may only find that the token has expired.
        for tried_count in range(1, tried_max + 2):
            failure: InstitutionUnavailable
            try:
                sent = await self._ask_once(call, body_max)
                answer = sent.answer
                if answer.status_code in self._traits.token_ended and not has_renewed:
                    has_renewed = True
                    self.tokens.forget(sent.authorization)
                    continue
                if _is_conclusive(answer.status_code):
                    taken = take(answer)
                    self.paces.note_success(call.route)
                    return taken
                failure = self._judge(call.route, answer)
            except (AnswerLost, message.MalformedAnswer) as error:
                failure = InstitutionUnavailable(str(error))
            took_s = self._clock.monotonic_s() - began_s
            wait_s = failure.retry_after.total_seconds() if failure.retry_after is not None else _TRIED_AFTER_S
            if wait_s > _WAITED_MAX_S or tried_count >= tried_max or took_s > _TRIED_FOR_S:
                raise failure
            # Jittered, so that processes which failed together do not come back together.
            await asyncio.sleep(max(wait_s, _TRIED_AFTER_S * 2**tried_count) + self._parts.entropy.fraction() / 2)
        raise InstitutionUnavailable("the institution rejects our tokens")

    async def _ask_once(self, call: Call, body_max: int) -> _Sent:
        try:
            authorization = await self._authorize()
            request = self._write(authorization, call, None)
            await self.paces.take(call.route, READ_PATIENCE_S)
            exchange_s = _FILE_S if body_max == message.FILE_MAX else None
            answer = await self._exchange(request, body_max, exchange_s=exchange_s)
        except ValueError as error:
            raise InstitutionUnavailable(str(error)) from None
        return _Sent(answer=answer, authorization=authorization)

    async def _authorize(self) -> str:
        try:
            return await self.tokens.authorize()
        except NoToken:
            self._parts.note(self.tokens.outcome)
            raise

    async def _exchange(
        self, request: bytes, body_max: int, *, is_new: bool = False, exchange_s: float | None = None
    ) -> ReceivedAnswer:
        connection, host = self._parts.connection, self._parts.host
        try:
            answer = await connection.exchange(host, request, body_max, is_new=is_new, exchange_s=exchange_s)
        except (NoConnection, AnswerLost) as error:
            # Only after a lost answer may the call have been executed, so the two are counted apart.
            self._parts.note("unreached" if isinstance(error, NoConnection) else "lost")
            raise
        self._parts.note(_name_outcome(answer.status_code))
        return answer

    def _write(self, authorization: str, call: Call, body: bytes | None) -> bytes:
        # For redacting it from repeated texts.
        self._authorization = authorization
        named = dict(client_id=self._credential.client_id, account=self._account.account, uuid=str(self._parts.entropy.uuid4()))
        own = {name: text.format(**named) for name, text in self._traits.headers.items()}
        options = self._account.options
        asked = {name: str(options[option]) for name, option in self._traits.query.items() if option in options}
        known = {"Authorization": authorization, "Accept": "application/json, application/problem+json"}
        if body is not None:
            known["Content-Type"] = "application/json"
        sent = known | {name: value for name, value in own.items() if value} | dict(call.headers)
        is_homologation = self._account.environment == "homologation"
        path = self._traits.place_in_tests(call.path) if is_homologation else call.path
        return message.write_request(self._parts.host, call.method, path, {**call.query, **asked}, sent, body)

    def _judge(self, route: Route, answer: ReceivedAnswer) -> InstitutionUnavailable:
        status = answer.status_code
        if status == 429:
            return InstitutionUnavailable("the institution answered 429", self._pause(route, answer))
        if 300 <= status <= 399:
            return InstitutionUnavailable(f"the institution answered {status}: a redirect, which is never followed")
        return InstitutionUnavailable(
            f"the institution answered {status}",
            _as_wait(message.read_wait(answer, self._clock.real_now())),
            is_refusal=status in _REFUSED,
        )

    def _pause(self, route: Route, answer: ReceivedAnswer) -> timedelta:
        return timedelta(seconds=self.paces.pause(route, message.read_wait(answer, self._clock.real_now())))


def _take_file(answer: ReceivedAnswer) -> tuple[int, bytes]:
    if answer.status_code == 200 and not {"content-length", "transfer-encoding"} & answer.headers.keys():
        raise message.MalformedAnswer("the file came without its length, so it may be incomplete")
    return answer.status_code, answer.body


def _name_outcome(status: int) -> str:
    if status in _REFUSED:
        return "refused"
    if status == 429:
        return "throttled"
    return "failed" if status >= 500 else "answered"


def _is_conclusive(status: int) -> bool:
    """Whether it is the institution's answer to this call, and not a gateway's."""
    return 200 <= status <= 299 or (400 <= status <= 499 and status not in (401, 408, 425, 429))


def _as_wait(wait_s: float | None) -> timedelta | None:
    return None if wait_s is None else timedelta(seconds=wait_s)


def read_required(calls: Calls, content: message.Content, read: Callable[[], TakenT]) -> TakenT:
    """Read an answer, which must be successful and readable: otherwise ``InstitutionUnavailable``, without secrets."""
    if not content.is_success:
        raise calls.refuse(content)
    try:
        return read()
    except Malformed as error:
        raise InstitutionUnavailable(error.reason) from None


async def obtain(
    calls: Calls,
    change: Call,
    read: Callable[[Mapping[str, object]], TakenT],
    judge: Callable[[message.Content], CertainRefusal | UnknownOutcome] | None = None,
) -> TakenT | CertainRefusal | NotSent | UnknownOutcome:
    """Send a call once and read a success; ``judge`` interprets a refusal, by default as an unknown outcome."""
    answer = await calls.change(change)
    if not isinstance(answer, message.Content):
        return answer
    if not answer.is_success:
        return judge(answer) if judge is not None else UnknownOutcome(reason=calls.describe(answer))
    try:
        return read(answer.members)
    except Malformed as error:
        return UnknownOutcome(reason=error.reason)
