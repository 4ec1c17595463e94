"""An inbox for webhooks: a local receiver that verifies signatures and stores the webhooks."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from msgspec import Struct, structs

from pixconnect_client._call import make_webhook_secret
from pixconnect_client.enums import EventName
from pixconnect_client.errors import InvalidWebhook
from pixconnect_client.events import Event, payload_fields
from pixconnect_client.webhook import verify_webhook

WAIT_TIMEOUT_S = 30.0
_UNTOLD = {"create_timestamp", "correlation_id"}


class Received(Struct, frozen=True, kw_only=True):
    """A received webhook."""

    event: Event
    body: bytes
    headers: Mapping[str, str]
    """Header names in lower case."""
    attempt: int
    """From 1."""
    answered: int
    """The status that the inbox returned."""


class Inbox:
    """Receives webhooks on a free local port until ``close``."""

    def __init__(self) -> None:
        self.secret = make_webhook_secret()
        """The secret that signs these webhooks, for a program that you forward them to."""
        self.received: list[Received] = []
        """All webhooks in order of arrival. An event may arrive more than once."""
        self.refused: list[str] = []
        """The reasons of rejected webhooks."""
        self._came = threading.Condition()
        self._taken: set[int] = set()
        self._next_statuses: list[int] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def wait_for(self, name: str, *, timeout_s: float = WAIT_TIMEOUT_S, **payload: object) -> Received:
        """Wait for an event. Earlier events count too, and each event is returned once.

        Args:
            name: The event type, such as ``qrcode.approved``.
            timeout_s: Maximum wait in seconds.
            payload: Required values of payload fields, such as ``external_id="order-7"``.

        Raises:
            AssertionError: It did not arrive in time. The message lists the events that did.
            TypeError: The payload of this event type has no such field.
            ValueError: There is no such event type.
        """
        _refuse_misspelt(name, payload)
        until = time.monotonic() + timeout_s
        with self._came:
            while (found := self._find(name, payload)) is None:
                left_s = until - time.monotonic()
                if left_s <= 0 or not self._came.wait(left_s):
                    raise AssertionError(self._explain(name, payload, timeout_s))
            self._taken.add(found.event.id)
            return found

    def answer_next(self, *statuses: int) -> None:
        """Respond to the next webhooks with these statuses, then with 204 again."""
        with self._came:
            self._next_statuses += statuses

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _find(self, name: str, payload: Mapping[str, object]) -> Received | None:
        for one in self.received:
            if one.event.id not in self._taken and one.event.name == name and _fits(one.event.payload, payload):
                return one
        return None

    def _explain(self, name: str, payload: Mapping[str, object], timeout_s: float) -> str:
        wanted = " ".join([name, *(f"{field}={value!r}" for field, value in payload.items())])
        came = [describe(one.event) for one in self.received]
        lines: Sequence[str] = [*came, *self.refused] or ["nothing"]
        return f"no {wanted} came within {timeout_s:g} s; what came:\n" + "\n".join(f"  {line}" for line in lines)

    def _take(self, body: bytes, headers: Mapping[str, str]) -> int:
        with self._came:
            try:
                event = verify_webhook(body, headers, self.secret)
            except InvalidWebhook as error:
                self.refused.append(f"refused: {error}")
                return 400
            answered = self._next_statuses.pop(0) if self._next_statuses else 204
            attempt = int(headers.get("x-webhook-attempt", "1"))
            self.received.append(Received(event=event, body=body, headers=headers, attempt=attempt, answered=answered))
            self._came.notify_all()
            return answered

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                status = take(body, {name.lower(): value for name, value in self.headers.items()})
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name there
                """Suppress the access log."""

        return Handler


def _refuse_misspelt(name: str, payload: Mapping[str, object]) -> None:
    names = [str(one) for one in EventName]
    if name not in names:
        raise ValueError(f"there is no event {name!r}{_guess(name, names)}")
    fields = payload_fields(name)
    for field in payload:
        if field not in fields:
            near = _guess(field, [*fields, "timeout_s"])
            raise TypeError(f"wait_for() has no argument {field!r}, and the payload of {name} no such field{near}")


def _guess(word: str, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(words)}"


def describe(event: Event, detail: Mapping[str, Any] | None = None) -> str:
    """Format an event as one line; ``detail`` comes from the feed."""
    fields = _fields(event.payload).items()
    told = " ".join(f"{name}={value}" for name, value in fields if name not in _UNTOLD and value is not None)
    return f"{event.create_timestamp:%H:%M:%S.%f}  {event.name:<23} {told}{_describe_detail(detail or {})}"


def _describe_detail(detail: Mapping[str, Any]) -> str:
    # The part that explains a failed test; the feed has the rest.
    told: list[str] = []
    for word, party in (("from", "debit_party"), ("to", "credit_party")):
        if party in detail:
            told.append(f"{word} {detail[party].get('name')}")
    if "paid_by" in detail:
        told.append(f"paid by {detail['paid_by'].get('payer', {}).get('name')}")
    if "outcome" in detail:
        told.append(f"{detail['outcome'].get('code')}: {detail['outcome'].get('reason')}")
    return f"  ({'; '.join(told)})" if told else ""


def _fields(payload: object) -> Mapping[str, object]:
    return structs.asdict(payload) if isinstance(payload, Struct) else cast("Mapping[str, object]", payload)


def _fits(payload: object, wanted: Mapping[str, object]) -> bool:
    fields = _fields(payload)
    return all(name in fields and fields[name] == value for name, value in wanted.items())
