"""Institutions' failures by the sandbox's fault rules: silence, proxies' pages, repeated requests, late lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Later, Reply, Services
from pixconnect.features.pix_api.api import frame
from pixconnect.features.pix_api.api.frame import Asked, Query
from pixconnect.features.pix_api.api.violations import Members, Violations, is_storable
from pixconnect.features.sandbox.rules import Message, Operation
from pixconnect.features.sandbox.service.sandbox import draw_fault
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy, format_milliseconds

AnswerT = TypeVar("AnswerT")
Respond = Callable[[], Awaitable[AnswerT]]
RespondTo = Callable[[Asked], Awaitable[Reply | Document]]
Hold = Callable[[], AbstractAsyncContextManager[None]]

OVERTAKEN_BY_S: Final = 1.0
"""Delay of an answer that callbacks overtake."""
_SPENT: Final = RatePolicy(name="requests", tokens_max=500, refill_per_s=500)
_BEFORE_ALL: Final = {"inicio": "1970-01-01T00:00:00Z", "fim": "1970-01-01T00:00:00Z"}
_PAGE_OF_A_PROXY: Final = Document(
    content=b"<!DOCTYPE html><html><head><title>Aguarde</title></head><body><h1>Aguarde</h1></body></html>",
    media_type="text/html; charset=utf-8",
)


class ListTraits(Struct, frozen=True, kw_only=True):
    """A list's parameters for interval and pages, if not the standard's."""

    interval: Sequence[str] = ()
    """The parameters for begin and end of a list."""
    page: str = ""
    """The parameter that numbers pages from 0."""
    page_count: str = ""
    """The member with the number of items on this page."""
    skip: str = ""
    """The parameter with the number of items to skip, if there are no pages."""


class _WithAmount(Struct):
    valor: float


async def answer_token(services: Services, path: str, respond: Respond[AnswerT]) -> AnswerT | Document | Later:
    effect = await draw_fault(services.context, Message(operation="face_token", id=path))
    return await _answer(effect, respond)


async def answer(
    services: Services, method: str, path: str, request: Asked, respond: RespondTo, traits: ListTraits
) -> Reply | Document | Later:
    """Return an operation's answer, after the first matching rule is applied to it."""
    operation: Operation = "face_read" if method == "GET" else "face_write"
    members = request.body.members if method not in ("GET", "DELETE") else None
    key, amount_cents = _read_body(members or {})
    # A value that is no text matches nothing: its reader refuses it.
    key = key if key is None or is_storable(key) else None
    name = f"{method} {path} {' '.join(request.parameter or ())}"
    message = Message(operation=operation, id=name, key=key, amount_cents=amount_cents)
    effect = await draw_fault(services.context, message)
    kind, _, argument = effect.partition(":")
    if kind == "lag":
        until = services.context.clock.now() - timedelta(seconds=int(argument))
        request = structs.replace(request, query=request.query.ending(until))
        if traits.interval:
            return await respond(structs.replace(request, query=_end_before(request.query, traits.interval, until)))
        return await _answer_late_news(request, respond, until)
    if kind == "page_shift":
        shift = _answer_skipping_one_less if traits.skip else _answer_shifted
        return await shift(request, respond, traits)
    return await _answer(effect, lambda: respond(request))


async def _answer(effect: str, respond: Respond[AnswerT]) -> AnswerT | Document | Later:
    kind, _, argument = effect.partition(":")
    match kind:
        case "unavailable":
            raise errors.ServiceUnavailable("a fault rule keeps this from being answered; nothing was done")
        case "too_many":
            raise errors.RateLimited("a fault rule simulates too many requests", int(argument), _SPENT)
        case "token_ended":
            raise errors.Unauthorized("a fault rule has ended this token")
        case "delay":
            return Later(answer=lambda hold: _respond_later(respond, int(argument) / 1000, hold))
        case "lost":
            raise _silence()
        case "html" if argument == "before":
            return _PAGE_OF_A_PROXY
        case "no_answer" | "html" | "duplicate_answer":
            # An intermediary repeats the request, loses its answer, or replaces it by a page.
            with suppress(errors.Refusal):
                await respond()
            if kind == "no_answer":
                raise _silence()
            return _PAGE_OF_A_PROXY if kind == "html" else await respond()
        case "out_of_order":
            response = await respond()
            return Later(answer=lambda _: asyncio.sleep(OVERTAKEN_BY_S, response))
        case _:
            return await respond()


def _silence() -> asyncio.CancelledError:
    # The server closes a connection whose request was given up, and the application writes no answer for it.
    return asyncio.CancelledError("a fault rule keeps this from being answered")


async def _respond_later(respond: Respond[AnswerT], delay_s: float, hold: Hold) -> AnswerT:
    await asyncio.sleep(delay_s)
    async with hold():
        return await respond()


def _read_body(members: Mapping[str, object]) -> tuple[str | None, int | None]:
    """Read the Pix key and the amount for rules, as far as a body has them."""
    if type(value := members.get("value")) is int:  # some count in cents
        key = members.get("destinationAlias")
        return key if isinstance(key, str) else None, value
    valor, payee = members.get("valor"), members.get("favorecido", members.get("destinatario"))
    amount = cast("Mapping[str, object]", valor).get("original") if isinstance(valor, dict) else valor
    key = cast("Mapping[str, object]", payee).get("chave") if isinstance(payee, dict) else members.get("chave")
    # Some write reais with a comma, some as a number.
    reais = amount.replace(",", ".") if isinstance(amount, str) else amount
    amount_cents = Members(Violations(""), _WithAmount, {"valor": reais}, "").reais("valor")
    return key if isinstance(key, str) else None, amount_cents


async def _answer_late_news(request: Asked, respond: RespondTo, until: datetime) -> Reply | Document:
    """Hide everything made after ``until``."""
    reply, record = _open(await respond(request))
    if "parametros" not in record:
        made_at = _find_instant(record)
        if made_at is not None and made_at > until:
            raise errors.NotFound("a fault rule delays this resource")
        return reply
    asked = record["parametros"]
    if "fim" not in asked or datetime.fromisoformat(asked["fim"]) <= until:
        return reply
    is_empty = datetime.fromisoformat(asked["inicio"]) > until
    values = _BEFORE_ALL if is_empty else {"fim": format_milliseconds(until)}
    earlier, shown = _open(await respond(structs.replace(request, query=request.query.with_values(values))))
    shown["parametros"] |= {name: asked[name] for name in ("inicio", "fim")}
    return structs.replace(cast("Reply", earlier), record=shown)


def _end_before(query: Query, interval: Sequence[str], until: datetime) -> Query:
    """Return a list's query that ends by then; invalid intervals are left to their reader."""
    start, end = interval
    values = query.read(interval)
    try:
        begin, asked = (datetime.fromisoformat(values.get(name) or until.isoformat()) for name in interval)
        if begin > until:
            return query.with_values(dict.fromkeys((start, end), _BEFORE_ALL["inicio"]))
        return query if asked < until else query.with_values({end: format_milliseconds(until)})
    except (TypeError, ValueError):
        return query


async def _answer_shifted(request: Asked, respond: RespondTo, traits: ListTraits) -> Reply | Document:
    """Answer a later page as if a new item had come before the first one."""
    reply, record = _open(await respond(request))
    parameter = traits.page or frame.PAGE
    # Any other text was refused just now.
    number = int(request.query.read((parameter,)).get(parameter) or 0)
    lists = [name for name, value in record.items() if isinstance(value, list)]
    if not number or not lists:
        return reply
    query = request.query.with_values({parameter: str(number - 1)})
    _, before = _open(await respond(structs.replace(request, query=query)))
    (name,) = lists
    items = [*before[name][-1:], *record[name]][: len(before[name])]
    shown = record | {name: items} | ({traits.page_count: len(items)} if traits.page_count else {})
    return structs.replace(cast("Reply", reply), record=shown)


async def _answer_skipping_one_less(request: Asked, respond: RespondTo, traits: ListTraits) -> Reply | Document:
    """Answer the rest of a list as if a new item had come before its first one."""
    reply, record = _open(await respond(request))
    # Any other text was refused just now.
    skipped = int(request.query.read((traits.skip,)).get(traits.skip) or 0)
    if not skipped:
        return reply
    query = request.query.with_values({traits.skip: str(skipped - 1)})
    shifted, shown = _open(await respond(structs.replace(request, query=query)))
    if not shown:
        return shifted
    asked = {name: value for name, value in record.items() if not isinstance(value, list)}
    return structs.replace(cast("Reply", shifted), record=shown | asked)


def _open(answered: Reply | Document) -> tuple[Reply | Document, dict[str, Any]]:
    record: object = msgspec.to_builtins(answered.record) if isinstance(answered, Reply) else None
    return answered, cast("dict[str, Any]", record) if isinstance(record, dict) else {}


def _find_instant(record: Mapping[str, Any]) -> datetime | None:
    instant: Any = record.get("horario") or record.get("calendario", {}).get("criacao")
    text = cast("dict[str, Any]", instant).get("solicitacao") if isinstance(instant, dict) else instant
    return datetime.fromisoformat(text) if isinstance(text, str) else None
