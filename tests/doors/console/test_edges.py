"""Requests that no page of the console sends: long, hostile, too many, endless."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from starlette.datastructures import QueryParams
from structlog.testing import capture_logs

from pixconnect.assembly import pages
from pixconnect.doors.console import application
from pixconnect.doors.console.forms import DOOR_SIZE_MAX, FORM_SIZE_MAX
from pixconnect.doors.console.paces import (
    ACTS,
    NEWCOMERS,
    OF_SESSION_MAX,
    REFUSED_LINES,
    SIGN_INS,
    STRANGERS,
    STREAMS_MAX,
    Streams,
)
from pixconnect.features.identity.service.console_session import NewSession
from pixconnect.platform.outgoing_text import LENGTH_MAX
from support.console import Browser, InProcess, open_console, sign_in, sign_in_client
from support.service import Service, make_charge, open_holder, read_funds

LIMITED_AFTER_S = 0.01
_LONG = "9" * 4_400
HOSTILE = (
    "", "-1", "0", str(2**63), str(2**53), _LONG[:4_000], "1" * 20, "\0", "a\r\nb: c", "\ud800", "²", "//[", "%",
    "'; drop table holder; --", "NaN", "9999-12-31..0001-01-01", ">=9998-12-31", "<0001-01-01", "2026-02-30",
    "{{7*7}}",
)  # fmt: skip


@pytest.fixture
async def console(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcess]:
    monkeypatch.setattr(application, "LIMITED_AFTER_S", LIMITED_AFTER_S)
    async with open_console(service) as opened:
        # A used budget stays used, however long a test takes.
        opened.console._paces._monotonic_s = lambda: 0.0
        yield opened


@pytest.fixture
async def operator(console: InProcess) -> Browser:
    return console.nobody.of(await sign_in(console, "operator"))


def _hostile(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


async def _list_targets(console: InProcess, monkeypatch: pytest.MonkeyPatch, session: NewSession) -> list[str]:
    """Every page with each hostile text in its path, and in each parameter of its query."""
    read: set[str] = set()
    monkeypatch.setattr(QueryParams, "get", lambda self, name, default=None: read.add(name) or default)
    monkeypatch.setattr(QueryParams, "getlist", lambda self, name: read.add(name) or [])
    found: list[str] = []
    for row in pages.ROUTES:
        if row.method != "GET":
            continue
        found += [row.path.replace("{id}", _hostile(text)) for text in HOSTILE if "{id}" in row.path]
        read.clear()
        await console.nobody.of(session).get(row.path.replace("{id}", "1"))
        found += [f"{row.path.replace('{id}', '1')}?{name}={_hostile(text)}" for name in sorted(read) for text in HOSTILE]
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
async def test_no_address_is_a_defect(console: InProcess, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Every page with every hostile text in every place, for a reader, an operator and a holder; or a part of them."""
    caller = await open_holder(console.service, funds_cents=100)
    await make_charge(console.service, caller)
    sessions = [await sign_in(console, "reader"), await sign_in(console, "operator")]
    sessions.append(await sign_in_client(console, caller.holder_id))
    targets = await _list_targets(console, monkeypatch, sessions[1])
    assert len(targets) > 500
    statuses: set[int] = set()
    with capture_logs() as logs:
        for number, target in enumerate(targets[::step]):
            for session in sessions if step == 1 else [sessions[number % 3]]:
                answer = await console.nobody.of(session).get(target)
                statuses.add(answer.status)
                assert answer.status < 500, (target[:80], answer)
    # Searches have a limit of their own.
    assert statuses <= {200, 303, 307, 400, 403, 404, 414, 429}
    assert [line for line in logs if len(str(line)) > 2_000] == []


@pytest.mark.long
async def test_no_form_is_a_defect_whoever_sends_it(console: InProcess) -> None:
    caller = await open_holder(console.service, funds_cents=100)
    reader, holder = await sign_in(console, "reader"), await sign_in_client(console, caller.holder_id)
    with capture_logs() as logs:
        for row in pages.ROUTES:
            if row.method != "POST" or row.path in {"/sign-out", "/sessions/{id}/end"}:
                continue
            for number, text in enumerate(HOSTILE):
                names = ("url", "secret", "type", "status", "amount", "name", "by", "effect", "times", "next", "answer")
                fields: dict[str, str | list[str]] = dict.fromkeys(
                    (*names, "client_id", "client_secret", "password", "code", "token"), text
                )
                target = row.path.replace("{id}", quote(text or "1", safe="", errors="surrogatepass"))
                console.console._paces._buckets._buckets.clear()
                for session in (reader, holder):
                    answer = await console.nobody.of(session).post(target, fields)
                    # An act on a missing resource, or without the right; a long one is too large to be accepted.
                    assert answer.status < 500 or "/sandbox" in row.path, (row.path, number, answer)
    assert all(len(str(line)) < 2_000 for line in logs)
    assert await console.audited() != []
    rows = await console.operator.pool.fetch("select length(before::text) + length(after::text) as size from audit")
    assert all((row["size"] or 0) < 5 * LENGTH_MAX for row in rows)


async def test_an_address_that_is_too_long_is_refused_before_anything_is_looked_up(console: InProcess) -> None:
    answer = await console.nobody.get(f"/charges/{_LONG}")
    assert answer.status == 414
    assert (await console.nobody.ask("GET", "/", {"host": "a:" + "9" * 5_000})).status == 400


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_form_that_is_too_large_is_refused_before_it_is_parsed(
    console: InProcess, operator: Browser, *, is_declared: bool
) -> None:
    def flood(size: int) -> bytes | list[bytes]:
        return b"&" * size if is_declared else [b"&" * 1024] * (size // 1024)

    for path in ("/sign-in", "/enter", "/preferences"):
        answer = await console.nobody.ask("POST", path, None, flood(DOOR_SIZE_MAX + 1024))
        assert (answer.status, len(answer.content) < 100) == (413, True)
    assert (await console.nobody.ask("POST", "/sign-in", None, b"&" * DOOR_SIZE_MAX)).status == 400
    assert (await operator.ask("POST", "/sandbox/faults", None, flood(FORM_SIZE_MAX + 1024))).status == 413
    answer = await console.nobody.ask("POST", "/sign-in", {"content-type": "multipart/form-data; boundary=a"}, b"--a")
    assert answer.status == 400


async def test_a_stranger_is_slowed_down_and_who_has_a_session_at_the_same_address_is_not(
    console: InProcess, operator: Browser
) -> None:
    assert (await operator.get("/charges")).status == 200
    console.service.clock.stand_still()
    statuses = [(await console.nobody.get("/sign-in")).status for _ in range(STRANGERS.tokens_max + 5)]
    assert statuses[-1] == 429
    refused = await console.nobody.get("/nothing")
    assert (refused.status, refused.headers["retry-after"], len(refused.content) < 100) == (429, "1", True)
    # Sessions that this process has seen before are served beside the flood.
    newcomer = operator.of(await sign_in(console, "operator", "newcomer"))
    assert (await newcomer.get("/charges")).status == 200
    # Unknown tokens are limited separately, and then the database is not asked.
    stranger = operator.of(NewSession(token="x" * 43, visitor=operator.session.visitor))  # type: ignore[union-attr]
    statuses = [(await stranger.get("/charges")).status for _ in range(NEWCOMERS.tokens_max + 5)]
    assert statuses[-1] == 429
    assert [(await each.get("/charges")).status for each in (operator, newcomer)] == [200, 200]


async def test_an_eager_stranger_waits(console: InProcess, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await operator.get("/charges")).status == 200
    console.service.clock.stand_still()
    waited_s: list[float] = []

    async def note(delay_s: float) -> None:
        waited_s.append(delay_s)

    monkeypatch.setattr("pixconnect.doors.console.application.asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": note}))
    for _ in range(STRANGERS.tokens_max):
        await console.nobody.get("/nowhere")
    assert waited_s == []
    assert [(await console.nobody.get(path)).status for path in ("/sign-in", "/charges", "/nowhere")] == [429] * 3
    assert waited_s == [LIMITED_AFTER_S] * 3
    assert [(await operator.get(path)).status for path in ("/charges", "/nowhere")] == [200, 404]
    assert len(waited_s) == 3


async def test_sign_ins_of_an_address_are_paced_before_their_forms_are_read(console: InProcess) -> None:
    console.service.clock.stand_still()
    for _ in range(SIGN_INS.tokens_max):
        assert (await console.nobody.ask("POST", "/sign-in", None, b"&" * 5_000)).status == 413
    answer = await console.nobody.post("/sign-in", {"client_id": "a", "client_secret": "b"})
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")


async def test_refused_forms_of_strangers_do_not_fill_the_log(console: InProcess) -> None:
    console.service.clock.stand_still()
    with capture_logs() as logs:
        for _ in range(SIGN_INS.tokens_max + REFUSED_LINES.tokens_max + 5):
            await console.nobody.post("/sign-in", {"client_id": "a", "client_secret": "b"})
    assert len([line for line in logs if line["event"] == "act refused"]) == REFUSED_LINES.tokens_max
    assert sum(console.console.refused_acts.values()) == REFUSED_LINES.tokens_max + 5


async def test_acts_of_a_holder_are_paced_however_many_sessions_it_has(console: InProcess) -> None:
    caller = await open_holder(console.service)
    first, second = [console.nobody.of(await sign_in_client(console, caller.holder_id)) for _ in range(2)]
    console.service.clock.stand_still()
    for _ in range(ACTS.tokens_max):
        assert (await first.post("/deliveries/1/resend")).status == 404
    assert (await second.post("/deliveries/1/resend")).status == 429
    assert (await second.get("/deliveries")).status == 200


async def test_a_reader_is_shown_no_signature_that_is_good_now(console: InProcess, operator: Browser) -> None:
    caller = await open_holder(console.service)
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    await holder.post("/endpoints", {"url": "https://shop.example/a"})
    await make_charge(console.service, caller)
    [delivery] = await console.service.fetch("select id from delivery")
    reader, path = console.nobody.of(await sign_in(console, "reader")), f"/deliveries/{delivery['id']}"
    only_reads = console.nobody.of(await sign_in_client(console, caller.holder_id, "webhook.read"))
    for who, sees in ((operator, True), (holder, True), (reader, False), (only_reads, False)):
        assert (b"webhook-signature" in (await who.get(path)).content) is sees
        async with who.following(path) as told:
            assert (b"webhook-signature" in b"".join(told)) is sees


async def test_a_client_sees_and_ends_no_session_of_other_clients(console: InProcess, operator: Browser) -> None:
    caller = await open_holder(console.service)
    rich, poor = [
        console.nobody.of(await sign_in_client(console, caller.holder_id, *scopes)) for scopes in ((), ("charge.read",))
    ]
    assert (await poor.post(f"/sessions/{rich.who.session_id}/end")).status == 404
    assert (await poor.get("/sessions")).content.count(b'/end"') == 1
    assert (await rich.get("/charges")).status == 200
    assert (await operator.post(f"/sessions/{rich.who.session_id}/end")).status == 303
    assert (await rich.get("/charges")).status == 303


async def test_an_act_is_done_once_however_its_answer_is_asked_for(console: InProcess) -> None:
    caller = await open_holder(console.service)
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    answer = await asyncio.wait_for(holder.post("/sandbox/deposit", {"amount": "10"}, accept="text/event-stream"), 60)
    assert (answer.status, "text/event-stream" in answer.headers.get("content-type", "")) == (303, False)
    assert await read_funds(console.service, caller) == (1000, 0)
    assert await console.audited() == [("console sign-in", "session 1"), ("sandbox deposit", f"holder {caller.holder_id}")]


async def test_a_file_is_a_file_however_it_is_asked_for(console: InProcess) -> None:
    caller = await open_holder(console.service, funds_cents=100)
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    answer = await asyncio.wait_for(holder.get("/ledger/export", accept="text/event-stream"), 60)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.content.startswith(b'"when","what"')


async def test_the_oldest_page_of_a_session_gives_way(console: InProcess, operator: Browser) -> None:
    async with operator.following("/charges") as first, AsyncExitStack() as others:
        for _ in range(OF_SESSION_MAX):
            await others.enter_async_context(operator.following("/charges"))
        async with asyncio.timeout(60):
            while b"retry: 60000" not in b"".join(first):  # noqa: ASYNC110 - a list has no event to await
                await asyncio.sleep(0.01)
        assert len(console.console._streams) == OF_SESSION_MAX


def test_where_all_places_are_taken_who_has_most_gives_one_up() -> None:
    streams, held = Streams(), []
    # The sessions of one holder use all sixteen places.
    for number in range(STREAMS_MAX):
        held.append(streams.hold(number // OF_SESSION_MAX, 7))
        held[-1].__enter__()
    with streams.hold(99, "console maria") as own:
        assert len(streams) == STREAMS_MAX
        with streams.hold(100, 7):
            assert not own.gives_way.is_set()
    assert len(streams) == STREAMS_MAX - 2
