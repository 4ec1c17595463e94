"""Sending at Woovi: a payment is created under our name, which moves nothing, and approved, at once or by another call.

Its errors are texts, of which two are known. A name is used once: the refusal of a second payment under it was tested in
production. The refusal of a second approval is untested, so none is ever sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.calls import Call, Calls, read_required
from pixconnect.features.institutions.adapters.message import LIST_MAX, Content, as_list, as_members
from pixconnect.features.institutions.adapters.wire import find_first, find_listed_payee
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentStatus, is_same_payee, name_payee
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX, KeyType, Party
from pixconnect.kernel.rules.tax_id import is_cpf
from pixconnect.platform.base.clock import Clock, format_milliseconds

_NAME_MAX: Final = 200
_REASON_MAX: Final = 500
_CODE_LENGTH: Final = 4
_ISPB_LENGTH: Final = 8
_ACCOUNT_TYPES: Final = dict(CHECKING="CACC", SAVINGS="SVGS", SALARY="SLRY", TRANSACTIONAL="TRAN")
_KEY_TYPES: Final = dict[str, KeyType](CPF="CPF", CNPJ="CNPJ", EMAIL="EMAIL", PHONE="PHONE", RANDOM="EVP", EVP="EVP")
_ENDED: Final = dict[str, SentStatus](CONFIRMED="settled", FAILED="refused", REJECTED="refused", DENIED="refused")
"""With any other word the payment may still be made: a CREATED one by an approver."""
_REJECT_CODES: Final = dict(
    ACCOUNT_NOT_FOUND="AC03", PIX_KEY_INFO_NOT_FOUND="AC03", INVALID_PIX_KEY="CH16", ACCOUNT_TRANSACTION_BLOCKED_BY_MED="AC06"
)  # fmt: skip
"""Its own codes with an equivalent in the scheme."""


def write_cents_send(pix: OutgoingPix, *, approves: bool, has_text_psp: bool = False) -> dict[str, object] | None:
    """Write the body; ``None`` if it has no form for such an account."""
    payee = pix.payee
    common: dict[str, object] = dict(value=pix.amount_cents, correlationID=pix.name, autoApprove=approves)
    comment = {"comment": pix.payer_message} if pix.payer_message else {}
    if pix.br_code is not None:
        # The additional amount limits the payment, even if the code has changed by then.
        return dict(type="QR_CODE", qrCode=pix.br_code, **common, **comment)
    if pix.is_by_key:
        kind = "RANDOM" if payee.key_type == "EVP" else payee.key_type
        return dict(type="PIX_KEY", destinationAlias=payee.key, destinationAliasType=kind, **common, **comment)
    account_type = _ACCOUNT_TYPES.get(payee.account_type)
    if account_type is None:
        return None
    # A payment to an account has no comment in the document; its examples have an object where its schema has a text.
    psp = payee.ispb if has_text_psp else {"id": payee.ispb}
    account = dict(account=payee.account_number, branch=payee.branch, accountType=account_type)
    return dict(type="MANUAL", psp=psp, holder=_write_owner(payee), account=account, **common)


def _write_owner(payee: Party) -> dict[str, object]:
    kind = "BR:CPF" if is_cpf(payee.tax_id) else "BR:CNPJ"
    return dict(name=payee.name, taxID=dict(type=kind, taxID=payee.tax_id))


def decode_cents_sent(members: Mapping[str, object], name: str, *, is_question: bool = True) -> SentPix:
    """Read a payment in its present state; ``Malformed`` if any of it is unreliable.

    Args:
        name: Ours, which it must have.
        is_question: Whether it answers a query; the answer to a sending call reports no more than that it was taken.
    """
    payment = wire.take_members(members, "payment")
    if wire.take_text(payment, "correlationID", _NAME_MAX) != name:
        raise wire.Malformed("correlationID is that of another payment")
    moved = as_members(members.get("transaction")) or {}
    word = wire.take_text(payment, "status", 60)
    status: SentStatus = _ENDED.get(word, "under_way") if is_question else "under_way"
    return SentPix(
        name=name,
        # It exists: if it is missing later, a person removed it.
        code=name,
        # Without it the payment could not be distinguished from another: a paid one must have it.
        end_to_end_id=wire.take_end_to_end_id(moved, "endToEndId")
        if status == "settled"
        else wire.find_network_name(moved, "endToEndId"),
        amount_cents=wire.take_cents(payment, "value"),
        status=status,
        settled_at=wire.find_instant(moved, "time") if status == "settled" else None,
        payee=_find_payee(payment, moved, as_members(members.get("destination")) or {}),
        # The other side of the movement has more details of an account than the payment.
        paid=find_listed_payee(find_first(members, "destination"), name="name", tax_id="taxID") if is_question else None,
        reason=_write_reason(word, members, moved) if status == "refused" else None,
        reject_code=_find_reject_code(members, moved) if status == "refused" else None,
    )


def is_created(members: Mapping[str, object]) -> bool:
    """Whether a payment waits for its approval."""
    return (as_members(members.get("payment")) or {}).get("status") == "CREATED"


def _find_payee(payment: Mapping[str, object], moved: Mapping[str, object], destination: Mapping[str, object]) -> str | None:
    """Find its payee in the form of ``name_payee``, if reported in full."""
    side = as_members(moved.get("creditParty")) or {}
    alias = _find_alias(payment)
    if payment.get("type") != "MANUAL" and payment.get("account") is None:
        return alias or wire.find_whole_key(destination, "pixKey")
    account = as_members(payment.get("account")) or as_members(side.get("account")) or {}
    psp = payment.get("psp") if payment.get("psp") is not None else side.get("psp")
    ispb = (as_members(psp) or {}).get("id") if not isinstance(psp, str) else psp
    numbers = (wire.find_free_text(account, "branch", 20), wire.find_free_text(account, "account", 40))
    # The shorter code of banks may identify the institution instead.
    if not isinstance(ispb, str) or len(ispb) != _ISPB_LENGTH or None in numbers:
        return None
    return "/".join([ispb, *("".join(each for each in number or "" if each.isalnum()) for number in numbers)])


def _find_alias(payment: Mapping[str, object]) -> str | None:
    kind, alias = (
        wire.find_text(payment, "destinationAliasType", 20),
        wire.find_text(payment, "destinationAlias", KEY_LENGTH_MAX),
    )
    if kind == "PHONE" and not (alias or "").startswith("+"):
        # Without its plus, a number with or without Brazil's code is ambiguous.
        return None
    return wire.find_whole_key(payment, "destinationAlias", _KEY_TYPES.get(kind or ""))


def _find_reject_code(members: Mapping[str, object], moved: Mapping[str, object]) -> str | None:
    """Find the scheme's reason; the text of the provider begins with it."""
    known = (wire.find_free_text(moved, name, _REASON_MAX) for name in ("providerErrorCode", "providerRejectedReason"))
    codes = [text[:_CODE_LENGTH] for text in known if text is not None]
    own = wire.find_free_text(as_members(members.get("error")) or {}, "code", 100)
    codes += [_REJECT_CODES[own]] if own in _REJECT_CODES else []
    return next((code for code in codes if code in reject_code.REASONS), None)


def _write_reason(word: str, members: Mapping[str, object], moved: Mapping[str, object]) -> str:
    error = as_members(members.get("error")) or {}
    texts = [wire.find_free_text(error, name, 200) for name in ("code", "description")]
    texts.append(wire.find_free_text(moved, "providerRejectedReason", 200))
    return " ".join([word, *filter(None, texts)])[:_REASON_MAX]


def find_messages(members: Mapping[str, object]) -> str:
    """Find the texts of an error in its other form: a list of messages."""
    rows = [as_members(row) or {} for row in as_list(members.get("errors")) or ()]
    texts = (wire.find_free_text(row, "message", 100) for row in rows)
    return ", ".join(filter(None, texts))[:_REASON_MAX]


def find_sent_name(row: object) -> str | None:
    members = as_members(row) or {}
    name = (as_members(members.get("payment")) or {}).get("correlationID")
    return name if isinstance(name, str) else None


def has_more(members: Mapping[str, object], rows_count: int, read_count: int, limit: int) -> bool:
    """Whether a list continues after a page: by its flag or its total; otherwise a full page is not the last."""
    page = as_members(members.get("pageInfo")) or {}
    goes_on, total = page.get("hasNextPage"), page.get("totalCount")
    if isinstance(goes_on, bool):
        return goes_on and rows_count > 0
    return total > read_count if type(total) is int else rows_count >= limit


SENDS: Final = "/api/v1/payment"
RESENT_FOR: Final = timedelta(hours=12)
OUTCOME_S: Final = 3.0  # usual time until an order's outcome is known
_APPROVE: Final = "/api/v1/payment/approve"
_REFUSED: Final = (400, 403)
_KNOWN_TEXTS: Final = ("correlationid", "saldo", "balance")
"""In errors for a used name, or too little money: the payment exists, or may exist."""
_ABSENT: Final = (400, 404)
_NO_LIST: Final = (403, 404, 405)  # this AppID has no list, which proves nothing about payments
_LISTED_AFTER: Final = timedelta(seconds=50)  # minimum age before a refusal by text is trusted
_WAITS_AFTER: Final = timedelta(minutes=1)
"""A payment created and not approved by then waits for a person at the institution."""
_LOOKED_FOR: Final = timedelta(days=1)
_GONE_AFTER: Final = timedelta(hours=1)  # since its first call: late list entries appear within this time
_CLOCKS_APART: Final = timedelta(hours=1)
_LIMIT: Final = 100
_PAGES_MAX: Final = 100  # maximum pages of the list of payments: its own limit on skipping is undocumented
_APPROVALS_MAX: Final = 3
_APPROVED_AFTER_MAX_S: Final = 2.0


class WooviSender:
    def __init__(self, calls: Calls, clock: Clock, *, has_two_steps: bool, has_text_psp: bool = False) -> None:
        self._calls, self._clock = calls, clock
        self._has_two_steps, self._has_text_psp = has_two_steps, has_text_psp

    async def send(self, pix: OutgoingPix) -> port.SendAnswer:
        body = write_cents_send(pix, approves=not self._has_two_steps, has_text_psp=self._has_text_psp)
        if body is None:
            return port.CertainRefusal(code="accountType", reason="Woovi pays to no account of this type", reject_code="AC14")
        answer = await self._calls.change(Call("send", "POST", SENDS, body, is_new=True, not_after_s=pix.not_after_s))
        if not isinstance(answer, Content):
            return answer
        if not answer.is_success:
            return self._judge(answer)
        created = _read_own(answer, pix)
        if isinstance(created, SentPix) and self._has_two_steps and is_created(answer.members):
            return await self._approve(created)
        return created

    async def _approve(self, created: SentPix) -> SentPix | port.UnknownOutcome:
        """Approve a payment: this moves the money, and after any outcome it may be done."""
        change = Call("send", "POST", _APPROVE, {"correlationID": created.name}, is_new=True)
        reason, wait_s = "", 0.0
        for _ in range(_APPROVALS_MAX):
            if wait_s:
                await asyncio.sleep(wait_s)
            answer = await self._calls.change(change)
            if not isinstance(answer, port.NotSent):
                return created
            # It certainly never left, so the next call is the first.
            reason = answer.reason
            retry_after_s = _APPROVED_AFTER_MAX_S if answer.retry_after is None else answer.retry_after.total_seconds()
            wait_s = min(retry_after_s, _APPROVED_AFTER_MAX_S)
        return port.UnknownOutcome(reason=f"the payment is created, and was not approved: {reason}")

    def _judge(self, answer: Content) -> port.UnknownOutcome:
        text = answer.text or find_messages(answer.members)
        is_known = any(known in text.lower() for known in _KNOWN_TEXTS)
        # Its errors are texts without a name.
        reason = self._calls.describe(structs.replace(answer, value={"title": text}))
        return port.UnknownOutcome(reason=reason, is_refusal=answer.status in _REFUSED and bool(text) and not is_known)

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        content = await self._calls.read("sent", f"{SENDS}/{name}")
        if content.status in _ABSENT and content.members:
            return await (self._judge_absent(name, since) if code is None else self._judge_gone(name, since))
        sent = read_required(self._calls, content, lambda: decode_cents_sent(content.members, name))
        if since is None or not is_created(content.members) or self._clock.real_now() < since + _WAITS_AFTER:
            return sent
        # Our call approves at once, unless the account has too little; then a second call does, which may be lost.
        return structs.replace(sent, waits_for="approval" if self._has_two_steps else "funds")

    async def _judge_absent(self, name: str, since: datetime | None) -> None:
        """Judge an absent payment.

        Any error may be 400 with a text, so a long-absent payment must be absent from the list too.
        """
        now = self._clock.real_now()
        if since is None or now < since + _LISTED_AFTER:
            return
        begin = max(since, now - _LOOKED_FOR) - _CLOCKS_APART
        if await self._is_listed(name, begin, now, unless=_NO_LIST):
            raise port.InstitutionUnavailable("a payment is in the list, and is not found by its name")

    async def _judge_gone(self, name: str, since: datetime | None) -> SentPix:
        """Judge a missing payment that existed: a person removed it unapproved.

        Both queries must confirm it, and not too soon.
        """
        now = self._clock.real_now()
        if since is None or now < since + _GONE_AFTER:
            raise port.InstitutionUnavailable("a payment that was there is not found: it may have been removed")
        # It was created by the first call, or by a repetition.
        end = min(now, since + RESENT_FOR + _CLOCKS_APART)
        if await self._is_listed(name, since - _CLOCKS_APART, end):
            raise port.InstitutionUnavailable("a payment is in the list, and is not found by its name")
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
            rows = read_required(self._calls, content, lambda content=content: wire.take_rows(content.members, "payments"))
            if any(find_sent_name(row) in (name, None) for row in rows):
                return True
            if not has_more(content.members, len(rows), (number + 1) * _LIMIT, _LIMIT):
                return False
        raise port.InstitutionUnavailable("more payments were made than the list is read of")


def _read_own(answer: Content, pix: OutgoingPix) -> SentPix | port.UnknownOutcome:
    """Read the answer about our own payment; the query reports its state."""
    try:
        sent = decode_cents_sent(answer.members, pix.name, is_question=False)
    except wire.Malformed as error:
        return port.UnknownOutcome(reason=error.reason)
    asked = name_payee(pix.payee, is_by_key=pix.is_by_key)
    if sent.amount_cents != pix.amount_cents or not is_same_payee(sent.payee, asked):
        return port.UnknownOutcome(reason="the institution answered another payment than we asked for")
    return sent
