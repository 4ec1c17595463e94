"""``pixconnect listen``: prints events as they come, and posts them to a program on this machine.

An event is done once it is printed, or once the program has answered 2xx; only then is the place in the feed stored. So if this
process, the program or the service dies at any instant, no event is skipped, and at most the last one comes again.
"""

import asyncio
import difflib
import hashlib
import json as std_json
import re
import secrets
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, Literal, get_args

import httpx2
import msgspec
from msgspec import Struct

from pixconnect.doors.cli import output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.credentials import Credentials, find_credentials
from pixconnect.doors.cli.integrator.session import explaining
from pixconnect.doors.cli.output import Json
from pixconnect.features.webhooks.cli.events import FoundEvent
from pixconnect.features.webhooks.cli.listeners import Door, ListenerState
from pixconnect.features.webhooks.rules.endpoint import message_id, request_headers
from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect_client import ApiError, AsyncClient, NoAnswer, RateLimited, Unavailable

_ANSWERED_WITHIN_S: Final = 30.0
_PORT_MAX: Final = 65_535
_FIELDS: Final = ("id", "name", "payload", "create_timestamp")


class ForwardingAttempt(Struct, frozen=True, kw_only=True):
    status: int | None  # ``None`` without an answer
    duration_ms: int
    error: str | None = None

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def outcome(self) -> str:
        return f"{self.status}  {self.duration_ms} ms" if self.status else f"{self.error} after {self.duration_ms} ms"


class Forwarder:
    """One program that receives events.

    Args:
        address: Its URL, or a part of it: 3000 is http://localhost:3000/.
    """

    def __init__(self, address: str, secret: str) -> None:
        self.url = complete(address)
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=_ANSWERED_WITHIN_S, trust_env=False, follow_redirects=False)

    async def post(self, event: FoundEvent, number: int) -> ForwardingAttempt:
        """Post an event once; `number` counts its attempts from 1."""
        body = msgspec.json.encode({name: event[name] for name in _FIELDS})
        # The receiver compares the time with the machine's own clock; only the service has the key that signs a JWS.
        now = datetime.now(UTC)  # noqa: TID251
        headers = request_headers([self._secret], message_id(event["id"]), body, jws="", attempt_number=number, real_now=now)
        began_s = time.monotonic()
        try:
            answer = await self._http.post(self.url, content=body, headers=[one for one in headers if one[1]])
        except httpx2.HTTPError as error:
            return ForwardingAttempt(status=None, duration_ms=_passed_ms(began_s), error=self._explain(error))
        return ForwardingAttempt(status=answer.status_code, duration_ms=_passed_ms(began_s))

    async def close(self) -> None:
        await self._http.aclose()

    def _explain(self, error: httpx2.HTTPError) -> str:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            address = httpx2.URL(self.url)
            return f"nothing answers at {address.host}:{address.port or (443 if address.scheme == 'https' else 80)}"
        return "no answer" if isinstance(error, httpx2.TimeoutException) else str(error) or type(error).__name__


def complete(address: str) -> str:
    is_whole = "://" in address
    port = re.fullmatch(r":?([0-9]+)(?:/(.*))?", address)
    url = f"http://localhost:{port[1]}/{port[2] or ''}" if port else address if is_whole else f"http://{address}"
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    # A single bare word is more likely a typo than the name of a machine.
    is_word = not (is_whole or parts.port or parts.host == "localhost" or "." in parts.host)
    if parts.scheme not in {"http", "https"} or not parts.host or is_word or not 0 < (parts.port or 1) <= _PORT_MAX:
        raise CommandError(f"--forward-to: must be an address such as http://localhost:3000/, or a port; it is {address!r}")
    return url


def _passed_ms(since_s: float) -> int:
    return round(1_000 * (time.monotonic() - since_s))


_FEED: Final = "/v1/webhook/feed"
_PAGE_SIZE: Final = 100
_WAIT_S: Final = 20
_RETRIED_AFTER_S: Final = (1, 2, 4, 8, 15, 30)
_GONE: Final = 410
_LINE_OCTETS_MAX: Final = 1 << 20


def listen(
    *,
    forward_to: str | None = None,
    events: str | None = None,
    start: Literal["oldest", "now"] | None = None,
    name: str | None = None,
    json: Json = False,
) -> None:
    """Print events as they come, until Ctrl-C, and post them to a program on this machine, signed as webhooks are.

    After a restart it continues after the last processed event. If the program does not answer 2xx, it retries the same post,
    in order. `pixconnect events resend` reaches it.

    Args:
        forward_to: Where to post them: a URL, or a port of this machine.
        events: Only these, separated by commas.
        start: Begin here, and not where it stopped: the first time it begins now.
        name: Its place is stored under this name; by default one for each account and `--forward-to`.
    """
    wanted = _read_events(events)
    if forward_to is not None:
        complete(forward_to)
    credentials = find_credentials()
    place = "\n".join((credentials.api_url, credentials.client_id, forward_to or ""))
    state = ListenerState(name or hashlib.sha256(place.encode()).hexdigest()[:16])
    try:
        if start is not None:
            state.cursor = None
        with explaining(credentials):
            asyncio.run(_Listener(credentials, state, forward_to, wanted, as_json=json).run(start or "now"))
    finally:
        state.close()


class _Listener:
    def __init__(
        self, credentials: Credentials, state: ListenerState, forward_to: str | None, wanted: str | None, *, as_json: bool
    ) -> None:
        self._credentials = credentials
        self._state = state
        self._forwarder = None if forward_to is None else Forwarder(forward_to, state.secret)
        self._wanted = wanted
        self._as_json = as_json

    async def run(self, start: str) -> None:
        credentials = self._credentials
        async with AsyncExitStack() as opened:
            # If reading the feed fails, the loop below retries for as long as it takes.
            client = await opened.enter_async_context(
                AsyncClient(
                    credentials.api_url,
                    credentials.client_id,
                    credentials.client_secret,
                    auth_url=credentials.auth_url,
                    timeout_s=_WAIT_S + 15,
                    retries=0,
                )
            )
            if self._forwarder is not None:
                opened.push_async_callback(self._forwarder.close)
            await self._open_door(opened)
            if self._state.cursor:
                self._announce("continuing where it stopped")
            await self._follow(client, start)

    async def _follow(self, client: AsyncClient, start: str) -> None:
        failed_count = 0
        while True:
            try:
                page = await client.request("GET", _FEED, query=self._ask(start))
            except (NoAnswer, RateLimited, Unavailable) as error:
                if not failed_count:
                    terminal.complain(f"the service does not answer: waiting for it ({error})")
                # Soon: events wait already.
                await asyncio.sleep(_RETRIED_AFTER_S[min(failed_count, 2)])
                failed_count += 1
                continue
            except ApiError as error:
                if error.status != _GONE:
                    raise
                raise CommandError(
                    "the place where it stopped is older than events are kept: begin with --start oldest, or --start now"
                ) from None
            if failed_count:
                terminal.notice("the service is back")
                failed_count = 0
            if not self._state.cursor:
                # Not earlier: we promise every event after this line.
                self._announce("from now on" if start == "now" else "from the oldest event on")
            for event in page["events"]:
                await self._take(event)
            # Skipped events move the place forward too.
            self._state.keep(page["cursor"])

    def _ask(self, start: str) -> dict[str, object]:
        cursor = self._state.cursor
        # The first time, read without waiting, so that a place is stored before anything happens.
        where = {"cursor": cursor, "wait_s": _WAIT_S} if cursor else {"start": start}
        return {**where, "page_size": _PAGE_SIZE, "event_types": self._wanted}

    async def _take(self, event: FoundEvent) -> None:
        if self._forwarder is None:
            self._print_event(event, None)
            self._state.keep(event["cursor"])
            return
        for number in count(1):
            attempt = await self._forwarder.post(event, number)
            if attempt.is_taken:
                # The place is stored before printing: the output may have no reader.
                self._state.keep(event["cursor"])
                self._print_event(event, attempt, number)
                return
            wait_s = _RETRIED_AFTER_S[min(number, len(_RETRIED_AFTER_S)) - 1]
            terminal.complain(f"{event['name']} {event['id']}: {attempt.outcome}; again in {wait_s} s")
            await asyncio.sleep(wait_s)

    def _print_event(self, event: FoundEvent, attempt: ForwardingAttempt | None, number: int = 1) -> None:
        if self._as_json:
            answer = attempt and {"status": attempt.status, "duration_ms": attempt.duration_ms, "attempts": number}
            terminal.stream(output.to_json({**event, "answer": answer}))
        else:
            terminal.stream(_describe(event) + (f"  → {terminal.on_one_line(attempt.outcome)}" if attempt else ""))

    async def _open_door(self, opened: AsyncExitStack) -> None:
        """Open the port for `events resend`."""
        # Only users with access to our files can read it.
        token = secrets.token_urlsafe(16)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                asked = std_json.loads(await reader.readline())
                if asked.get("token") == token:
                    # Out of order, as requested, and once: the caller sees the result.
                    event = asked["event"]
                    attempt = None if self._forwarder is None else await self._forwarder.post(event, 1)
                    self._print_event(event, attempt)
                    writer.write(f"{attempt.outcome if attempt else 'printed'}\n".encode())
                    await writer.drain()
            except (OSError, ValueError, KeyError, AttributeError):
                # The connection is from another program, or closed again.
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=_LINE_OCTETS_MAX)
        opened.push_async_callback(server.wait_closed)
        opened.callback(server.close)
        self._state.open_door(
            Door(
                port=server.sockets[0].getsockname()[1],
                token=token,
                api_url=self._credentials.api_url,
                client_id=self._credentials.client_id,
                forward_to="" if self._forwarder is None else self._forwarder.url,
            )
        )

    def _announce(self, where: str) -> None:
        terminal.notice(f"listening to {self._credentials.api_url} ({where}; Ctrl-C stops)")
        if self._forwarder is not None:
            terminal.notice(f"posting to {self._forwarder.url}, signed with {self._state.secret}")


def _describe(event: FoundEvent) -> str:
    payload: dict[str, Any] = event["payload"]
    at = datetime.fromisoformat(event["create_timestamp"]).astimezone(SAO_PAULO)
    names = ("external_id", "end_to_end_id", "return_identification", "transaction_identification")
    named = next((payload[name] for name in names if payload.get(name)), "")
    amount = f"  {show_reais(payload['amount'])}" if "amount" in payload else ""
    painted = terminal.paint_state(payload["status"])
    return f"{at:%H:%M:%S}  {event['name']}  {painted}  {payload['id']} {terminal.on_one_line(str(named))}{amount}"


def _read_events(text: str | None) -> str | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in get_args(EventName)]
    if unknown or not names:
        near = difflib.get_close_matches(unknown[0], get_args(EventName), n=1) if unknown else []
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(get_args(EventName))}"
        raise CommandError(f"--events: {text!r} names an event that there is not; {meant}")
    return ",".join(names)
