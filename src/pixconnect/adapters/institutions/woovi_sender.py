"""Sending at Woovi: a payment is created under a name of ours, which moves nothing, and approved, at once or by another call.

Its errors are texts, of which two are known. A name is taken once: that a second payment under it is refused was tried in
production, and that a second approval is nobody has seen, so none is ever asked for.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.adapters.institutions.calls import Calls, ChangingCall, read_required
from pixconnect.adapters.institutions.message import LIST_MAX, Content
from pixconnect.adapters.institutions.wire import Malformed, take_rows
from pixconnect.adapters.institutions.woovi_sent import (
    decode_cents_sent,
    find_messages,
    find_sent_name,
    has_more,
    is_created,
    write_cents_send,
)
from pixconnect.domain.frame.clock import Clock, format_milliseconds
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    InstitutionUnavailable,
    NotSent,
    SendAnswer,
    UnknownOutcome,
)
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix, is_same_payee, name_payee

SENDS: Final = "/api/v1/payment"
RESENT_FOR: Final = timedelta(hours=12)
OUTCOME_S: Final = 3.0
"""About so long an order takes until we know how it ended."""
_APPROVE: Final = "/api/v1/payment/approve"
_REFUSED: Final = (400, 403)
_KNOWN_TEXTS: Final = ("correlationid", "saldo", "balance")
"""In what says that the name was used, or that there is too little money there: the payment is there, or may be."""
_ABSENT: Final = (400, 404)
_NO_LIST: Final = (403, 404, 405)
"""For this AppID there is none, which says nothing of payments."""
_LISTED_AFTER: Final = timedelta(seconds=50)
"""Before a refusal by a text is believed."""
_WAITS_AFTER: Final = timedelta(minutes=1)
"""What is created, and by then not approved, waits for a person there."""
_LOOKED_FOR: Final = timedelta(days=1)
_GONE_AFTER: Final = timedelta(hours=1)
"""From its first call on: what lists are late with is there by then."""
_CLOCKS_APART: Final = timedelta(hours=1)
_LIMIT: Final = 100
_PAGES_MAX: Final = 100
"""Of the list of payments: its own bound of what may be skipped is not told."""
_APPROVALS_MAX: Final = 3
_APPROVED_AFTER_MAX_S: Final = 2.0


class WooviSender:
    """What sends and reads what was sent, by the calls of one account."""

    def __init__(self, calls: Calls, clock: Clock, *, has_two_steps: bool, has_text_psp: bool = False) -> None:
        self._calls, self._clock = calls, clock
        self._has_two_steps, self._has_text_psp = has_two_steps, has_text_psp

    async def send(self, pix: OutgoingPix) -> SendAnswer:
        body = write_cents_send(pix, approves=not self._has_two_steps, has_text_psp=self._has_text_psp)
        if body is None:
            # Certain, since nothing is sent at all.
            return CertainRefusal(
                code="accountType", reason="Woovi pays to no account of this type", reject_code="AC14"
            )
        answer = await self._calls.change(
            ChangingCall(
                route="send",
                method="POST",
                path=SENDS,
                body=body,
                is_on_new_connection=True,
                not_after_s=pix.not_after_s,
            )
        )
        if not isinstance(answer, Content):
            return answer
        if not answer.is_success:
            return self._judge(answer)
        created = _read_own(answer, pix)
        if isinstance(created, SentPix) and self._has_two_steps and is_created(answer.members):
            return await self._approve(created)
        return created

    async def _approve(self, created: SentPix) -> SentPix | UnknownOutcome:
        """The step that moves the money: whatever it comes to, it may be done."""
        change = ChangingCall(
            route="send",
            method="POST",
            path=_APPROVE,
            body={"correlationID": created.name},
            is_on_new_connection=True,
        )
        reason, wait_s = "", 0.0
        for _ in range(_APPROVALS_MAX):
            if wait_s:
                await asyncio.sleep(wait_s)
            answer = await self._calls.change(change)
            if not isinstance(answer, NotSent):
                return created
            # It certainly never left, so the next one is the first.
            reason = answer.reason
            told_s = _APPROVED_AFTER_MAX_S if answer.retry_after is None else answer.retry_after.total_seconds()
            wait_s = min(told_s, _APPROVED_AFTER_MAX_S)
        return UnknownOutcome(reason=f"the payment is created, and was not approved: {reason}")

    def _judge(self, answer: Content) -> UnknownOutcome:
        text = answer.text or find_messages(answer.members)
        is_known = any(known in text.lower() for known in _KNOWN_TEXTS)
        # Its error is a text alone, which is no name besides.
        reason = self._calls.describe(structs.replace(answer, value={"title": text}))
        return UnknownOutcome(reason=reason, is_refusal=answer.status in _REFUSED and bool(text) and not is_known)

    async def read_sent(self, name: str, code: str | None, since: datetime | None) -> SentPix | None:
        content = await self._calls.read("sent", f"{SENDS}/{name}")
        if content.status in _ABSENT and content.members:
            return await (self._judge_absent(name, since) if code is None else self._judge_gone(name, since))
        told = read_required(self._calls, content, lambda: decode_cents_sent(content.members, name))
        if since is None or not is_created(content.members) or self._clock.real_now() < since + _WAITS_AFTER:
            return told
        # Our call approves at once, unless the account has too little; or another one does, which may be lost.
        return structs.replace(told, waits_for="approval" if self._has_two_steps else "funds")

    async def _judge_absent(self, name: str, since: datetime | None) -> None:
        """Whatever is wrong there may be 400 with a text: what is absent for long must be absent from the list too."""
        now = self._clock.real_now()
        if since is None or now < since + _LISTED_AFTER:
            return
        begin = max(since, now - _LOOKED_FOR) - _CLOCKS_APART
        if await self._is_listed(name, begin, now, unless=_NO_LIST):
            raise InstitutionUnavailable("a payment is in the list, and is not found by its name")

    async def _judge_gone(self, name: str, since: datetime | None) -> SentPix:
        """Of one that was there: somebody removes what is not approved. Both questions must say so, and not too soon."""
        now = self._clock.real_now()
        if since is None or now < since + _GONE_AFTER:
            raise InstitutionUnavailable("a payment that was there is not found: it may have been removed")
        # It was made by the first call, or by one that was made again.
        end = min(now, since + RESENT_FOR + _CLOCKS_APART)
        if await self._is_listed(name, since - _CLOCKS_APART, end):
            raise InstitutionUnavailable("a payment is in the list, and is not found by its name")
        return SentPix(
            name=name,
            code=name,
            end_to_end_id=None,
            amount_cents=None,
            status="refused",
            settled_at=None,
            reason="the payment was removed there before it was approved",
        )

    async def _is_listed(self, name: str, begin: datetime, end: datetime, unless: tuple[int, ...] = ()) -> bool:
        for number in range(_PAGES_MAX):
            query = {"start": format_milliseconds(begin), "end": format_milliseconds(end)}
            paged = query | {"skip": str(number * _LIMIT), "limit": str(_LIMIT)}
            content = await self._calls.read("sent", SENDS, paged, body_max=LIST_MAX)
            if content.status in unless:
                return False
            rows = read_required(self._calls, content, lambda content=content: take_rows(content.members, "payments"))
            if any(find_sent_name(row) in (name, None) for row in rows):
                return True
            if not has_more(content.members, len(rows), (number + 1) * _LIMIT, _LIMIT):
                return False
        raise InstitutionUnavailable("more payments were made than the list is read of")


def _read_own(answer: Content, pix: OutgoingPix) -> SentPix | UnknownOutcome:
    """What was answered of the payment that we asked for; how it is, the question tells."""
    try:
        told = decode_cents_sent(answer.members, pix.name, is_question=False)
    except Malformed as error:
        return UnknownOutcome(reason=error.reason)
    asked = name_payee(pix.payee, is_by_key=pix.is_by_key)
    if told.amount_cents != pix.amount_cents or not is_same_payee(told.payee, asked):
        return UnknownOutcome(reason="the institution answered another payment than we asked for")
    return told
