"""``pixconnect listen``: events as they come, printed and posted to a program on this machine.

An event is taken once it is printed, or once the program has answered 2xx; only then is the place in the feed kept. So whoever
dies, this, the program or the service, at whatever instant: nothing is left out, and at most the last event comes again.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json as std_json
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import count
from typing import Any, Final, Literal, get_args

from pixconnect.cli.frame import output, terminal
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.integrator import forwarding
from pixconnect.cli.integrator.credentials import Credentials, find_credentials
from pixconnect.cli.integrator.event_search import FoundEvent
from pixconnect.cli.integrator.forwarding import Forwarder, ForwardingAttempt
from pixconnect.cli.integrator.listeners import Door, ListenerState, make_token
from pixconnect.cli.integrator.session import explaining
from pixconnect.domain.frame.event import EventName
from pixconnect_client import ApiError, AsyncClient, NoAnswer, RateLimited, Unavailable

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

    After a restart it continues behind the last event that it took. If the program does not answer 2xx, it tries the
    same post again, in order. `pixconnect events resend` reaches it.

    Args:
        forward_to: Where to post them: a URL, or a port of this machine.
        events: Only these, with commas between them.
        start: Begin here, and not where it stopped: the first time it begins now.
        name: Its place is kept under this name; by default one for each account and `--forward-to`.
    """
    wanted = _read_events(events)
    if forward_to is not None:
        # Before anything of it is kept.
        forwarding.complete(forward_to)
    credentials = find_credentials()
    state = ListenerState(name or _name_state(credentials, forward_to))
    try:
        if start is not None:
            state.cursor = None
        with explaining(credentials):
            asyncio.run(_Listener(credentials, state, forward_to, wanted, as_json=json).run(start or "now"))
    finally:
        state.close()


class _Listener:
    def __init__(
        self,
        credentials: Credentials,
        state: ListenerState,
        forward_to: str | None,
        wanted: str | None,
        *,
        as_json: bool,
    ) -> None:
        self._credentials = credentials
        self._state = state
        self._forwarder = None if forward_to is None else Forwarder(forward_to, state.secret)
        self._wanted = wanted
        self._as_json = as_json

    async def run(self, start: str) -> None:
        credentials = self._credentials
        async with AsyncExitStack() as opened:
            # If reading the feed fails, the loop below reads again, however long it takes.
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
                # Soon: events wait there.
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
        # The first time there is no place: nothing is waited for, so that there is one before anything happens.
        where = {"cursor": cursor, "wait_s": _WAIT_S} if cursor else {"start": start}
        return {**where, "page_size": _PAGE_SIZE, "event_types": self._wanted}

    async def _take(self, event: FoundEvent) -> None:
        if self._forwarder is None:
            self._tell(event, None)
            self._state.keep(event["cursor"])
            return
        for number in count(1):
            attempt = await self._forwarder.post(event, number)
            if attempt.is_taken:
                # We store the place before we print: nobody may be reading.
                self._state.keep(event["cursor"])
                self._tell(event, attempt, number)
                return
            wait_s = _RETRIED_AFTER_S[min(number, len(_RETRIED_AFTER_S)) - 1]
            terminal.complain(f"{event['name']} {event['id']}: {attempt.said}; again in {wait_s} s")
            await asyncio.sleep(wait_s)

    def _tell(self, event: FoundEvent, attempt: ForwardingAttempt | None, number: int = 1) -> None:
        if self._as_json:
            answer = attempt and {"status": attempt.status, "duration_ms": attempt.duration_ms, "attempts": number}
            terminal.stream(output.to_json({**event, "answer": answer}))
        else:
            terminal.stream(_describe(event) + (f"  → {terminal.on_one_line(attempt.said)}" if attempt else ""))

    async def _open_door(self, opened: AsyncExitStack) -> None:
        """Let `events resend` in."""
        token = make_token()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                asked = std_json.loads(await reader.readline())
                if asked.get("token") == token:
                    writer.write(f"{await self._take_again(asked['event'])}\n".encode())
                    await writer.drain()
            except (OSError, ValueError, KeyError, AttributeError):
                # Not one of ours, or gone again.
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

    async def _take_again(self, event: FoundEvent) -> str:
        # Out of order, as requested, and once: the caller sees the result.
        attempt = None if self._forwarder is None else await self._forwarder.post(event, 1)
        self._tell(event, attempt)
        return attempt.said if attempt else "printed"

    def _announce(self, where: str) -> None:
        terminal.notice(f"listening to {self._credentials.api_url} ({where}; Ctrl-C stops)")
        if self._forwarder is not None:
            terminal.notice(f"posting to {self._forwarder.url}, signed with {self._state.secret}")


def _describe(event: FoundEvent) -> str:
    payload: dict[str, Any] = event["payload"]
    at = datetime.fromisoformat(event["create_timestamp"]).astimezone()
    names = ("external_id", "end_to_end_id", "return_identification", "transaction_identification")
    named = next((payload[name] for name in names if payload.get(name)), "")
    amount = f"  {terminal.show_reais(payload['amount'])}" if "amount" in payload else ""
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


def _name_state(credentials: Credentials, forward_to: str | None) -> str:
    said = "\n".join((credentials.api_url, credentials.client_id, forward_to or ""))
    return hashlib.sha256(said.encode()).hexdigest()[:16]
