"""Requests get spans with few names and without request data; probes get none."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct, field

from pixconnect.features.traces.api import TracedApplication
from pixconnect.features.traces.tracer import NO_FACTS, Fact, SpanKind
from pixconnect.platform.http.exchange import Message, Receive, Scope, Send
from pixconnect.platform.logging import current_trace

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OWN = "00-0af7651916cd43dd8448eb211c80319c-1111111111111111-01"


class Noted(Struct):
    """A span's arguments."""

    name: str
    parent: str | None
    facts: dict[str, Fact]
    traceparent: str = OWN
    has_failed: bool | None = None  # ``None`` while it is open

    def end(self, *, has_failed: bool = False, facts: Mapping[str, Fact] = NO_FACTS) -> None:
        self.has_failed = has_failed
        self.facts.update(facts)


class Notes(Struct):
    spans: list[Noted] = field(default_factory=list)

    def begin(
        self,
        kind: SpanKind,
        name: str,
        parent: str | None = None,
        *,
        began_at: datetime | None = None,
        facts: Mapping[str, Fact] = NO_FACTS,
    ) -> Noted:
        self.spans.append(Noted(name, parent, dict(facts)))
        return self.spans[-1]


class Answers:
    """An application with one operation, which records its trace."""

    def __init__(self, status: int, scope: str | None) -> None:
        self._status = status
        self._operation = SimpleNamespace(id="start", method="POST" if scope else "GET", path="/v1/{id}", scope=scope)
        self.seen: list[object] = []

    def find_operation(self, scope: Scope) -> object:
        return None if b"nothing" in scope["raw_path"] else self._operation

    def answer_at_once(self, scope: Scope) -> None:
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen = [scope.get("traceparent"), current_trace.get()]
        if self._status == 0:
            raise ConnectionResetError
        await send({"type": "http.response.start", "status": self._status, "headers": []})


async def ask(answers: Answers, target: bytes = b"/v1/secret-7", **headers: str) -> list[Noted]:
    notes = Notes()
    application = TracedApplication(answers, answers.find_operation, notes)
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"method": "POST", "raw_path": target, "headers": encoded}

    async def send(message: Message) -> None: ...

    async def receive() -> Message:
        return {}

    with suppress(ConnectionResetError):
        await application(scope, receive, send)
    return notes.spans


async def test_a_request_goes_on_in_the_trace_that_it_came_with() -> None:
    answers = Answers(200, "transfer.write")
    (span,) = await ask(answers, traceparent=GIVEN)
    assert (span.name, span.parent, span.has_failed) == ("POST /v1/{id}", GIVEN, False)
    assert span.facts == {
        "http.request.method": "POST",
        "http.route": "/v1/{id}",
        "pixconnect.operation": "start",
        "http.response.status_code": 200,
    }
    assert answers.seen == [OWN, OWN]


@pytest.mark.parametrize(("status", "has_failed"), [(200, False), (422, False), (503, True), (0, True)])
async def test_what_failed_by_us_is_a_failure(status: int, has_failed: bool) -> None:
    (span,) = await ask(Answers(status, "transfer.write"))
    assert (span.has_failed, span.facts["http.response.status_code"]) == (has_failed, status)


async def test_probes_and_what_is_not_there_get_spans_only_where_they_are_asked_for() -> None:
    probe = Answers(200, None)
    current_trace.set(GIVEN)
    assert await ask(probe) == []
    # An earlier request on the connection does not belong to this trace.
    assert probe.seen == [None, None]
    assert await ask(Answers(404, "transfer.write"), b"/nothing/7") == []
    (span,) = await ask(Answers(404, "transfer.write"), b"/nothing/7", traceparent=GIVEN)
    assert (span.name, span.facts) == ("HTTP", {"http.response.status_code": 404})
