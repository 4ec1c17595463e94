"""Reads the payload behind a dynamic QR code, after its signature was verified: ``CobPayload`` or ``CobVPayload``.

Institutions write it in ways of their own, so we read it liberally: numbers may be texts, a comma may separate the cents, and
fields that we do not need may be missing or wrong. The receiver's institution judges every order again anyway.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from pixconnect.domain.due.terms import VALID_DAYS
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.money.charge_contents import LIFETIME_S
from pixconnect.domain.standard.outside_location import OutsideCharge

KEY_LENGTH_MAX: Final = 77

# The ``modalidadeAlteracao`` of a charge whose payer chooses the amount.
_ANY_AMOUNT: Final = 1

_QUESTION_LENGTH_MAX: Final = 140

_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_AMOUNT: Final = re.compile(r"([0-9]{1,10})(?:[.,]([0-9]{0,2}))?")
_COUNT: Final = re.compile(r"[0-9]{1,9}")

_Number = int | float | str
_Status = Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]


class _Calendar(Struct, frozen=True, kw_only=True):
    """For how many seconds after an instant, or until how many days after a civil date, it can be paid."""

    created_at: str | None = field(default=None, name="criacao")
    payable_for_s: _Number | None = field(default=None, name="expiracao")
    due_on: str | None = field(default=None, name="dataDeVencimento")
    payable_after_due_days: _Number | None = field(default=None, name="validadeAposVencimento")


class _Value(Struct, frozen=True, kw_only=True):
    # With a due date ``final`` counts: it contains the fines and discounts of the day.
    original: _Number | None = None
    final: _Number | None = None
    change_mode: _Number | None = field(default=None, name="modalidadeAlteracao")


class _Payload(Struct, frozen=True, kw_only=True):
    txid: str
    calendar: _Calendar = field(name="calendario")
    value: _Value = field(name="valor")
    key: str = field(name="chave")
    status: _Status
    revision: object = field(default=None, name="revisao")
    question: object = field(default=None, name="solicitacaoPagador")


_read = msgspec.json.Decoder(_Payload).decode


def parse_payload(octets: bytes) -> OutsideCharge:
    """Read a payload; ``InvalidQrCode`` if it is not a charge."""
    try:
        payload = _read(octets)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _refusal(f"cannot be read: {error}") from None
    if _TXID.fullmatch(payload.txid) is None:
        raise _refusal("has a txid that is not 1 to 35 letters and digits")
    if not 0 < len(payload.key) <= KEY_LENGTH_MAX:
        raise _refusal(f"has a chave that is not 1 to {KEY_LENGTH_MAX} characters long")
    try:
        created_at = _read_instant(payload.calendar.created_at)
        expires_at = _find_expiry(payload.calendar, created_at)
    except (ValueError, OverflowError):
        raise _refusal("has a calendario that names no instant") from None
    return OutsideCharge(
        txid=payload.txid,
        key=payload.key,
        amount_cents=_find_amount(payload),
        status=payload.status,
        expires_at=expires_at,
        created_at=created_at,
        has_due_date=payload.calendar.due_on is not None,
        revision=payload.revision if type(payload.revision) is int else 0,
        question=payload.question[:_QUESTION_LENGTH_MAX] if isinstance(payload.question, str) else None,
    )


def _read_instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    instant = datetime.fromisoformat(text)
    # We read an instant without a zone as UTC, which the scheme uses.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def _find_amount(payload: _Payload) -> int | None:
    """The amount in cents; ``None`` if the payer may choose it."""
    value = payload.value
    if payload.calendar.due_on is not None or value.final is not None:
        amount_cents = _parse_amount(value.final, "valor.final")
    else:
        amount_cents = _parse_amount(value.original, "valor.original")
    change_mode = 0 if value.change_mode is None else _parse_count(value.change_mode, "valor.modalidadeAlteracao")
    return None if amount_cents == 0 or change_mode == _ANY_AMOUNT else amount_cents


def _parse_amount(number: _Number | None, name: str) -> int:
    if number is None:
        raise _refusal(f"has no {name}")
    found = _AMOUNT.fullmatch(str(number))
    if found is None:
        raise _refusal(f"has a {name} that is no amount")
    reais, cents = found.groups()
    return int(reais) * 100 + int((cents or "").ljust(2, "0"))


def _parse_count(number: _Number, name: str) -> int:
    text = str(number).removesuffix(".0")
    if _COUNT.fullmatch(text) is None:
        raise _refusal(f"has a {name} that is no count")
    return int(text)


def _find_expiry(calendar: _Calendar, created_at: datetime | None) -> datetime | None:
    """From when on it cannot be paid; ``None`` if it does not say."""
    if calendar.due_on is not None:
        return _find_expiry_after_due(calendar, date.fromisoformat(calendar.due_on[:10]))
    if created_at is None:
        return None
    payable_for_s = LIFETIME_S
    if calendar.payable_for_s is not None:
        payable_for_s = _parse_count(calendar.payable_for_s, "calendario.expiracao")
    return created_at + timedelta(seconds=payable_for_s)


def _find_expiry_after_due(calendar: _Calendar, due_on: date) -> datetime:
    """The end of the last day, in Sao Paulo."""
    days = VALID_DAYS
    if calendar.payable_after_due_days is not None:
        days = _parse_count(calendar.payable_after_due_days, "calendario.validadeAposVencimento")
    last_on = due_on + timedelta(days=days)
    # A last day at the weekend moves to Monday. Holidays would move it too, but payers do not all have the same ones: whether
    # an order after a holiday is in time is for the receiver's institution to judge.
    if last_on.weekday() >= 5:
        last_on += timedelta(days=7 - last_on.weekday())
    return datetime.combine(last_on + timedelta(days=1), time(), SAO_PAULO).astimezone(UTC)


def _refusal(reason: str) -> errors.InvalidQrCode:
    return errors.InvalidQrCode(f"emv: the payload at its location {reason}")
