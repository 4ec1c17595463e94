"""Woovi's charges, Pix and refunds, as our records: amounts in cents, names of the caller's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.message import as_members
from pixconnect.features.institutions.adapters.standard_records import check_code
from pixconnect.features.institutions.rules.institution import ListedRefund, OpenedCharge, ReceivedPix
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX, Party, describe_party

_WEBHOOK_ID: Final = re.compile(r"[A-Za-z0-9+_=-]{1,100}")  # Base64 in its document
_NAME_MAX: Final = 200
_CODE_MAX: Final = 600
_LIFETIME_MAX_S: Final = 2**31 - 1
_REFUNDS: Final = dict[str, Literal["under_way", "returned", "refused"]](
    IN_PROCESSING="under_way", REFUNDED="returned", CONFIRMED="returned", NOT_ACCOMPLISHED="refused", REJECTED="refused"
)
"""Of a refund itself, and of a charge's refunds."""
RETURNED_WORDS: Final = frozenset({"REFUNDED", "PARTIAL_REFUND"})
_SETTLED_WORDS: Final = RETURNED_WORDS | {"CONFIRMED"}
_OPEN_WORDS: Final = frozenset({"CREATED", "IN_PROCESSING", "REJECTED"})


def read_cents_charge(members: Mapping[str, object], now: datetime) -> OpenedCharge:
    """Read a charge; our txid is its maker's name for it."""
    created_at = wire.take_instant(members, "createdAt")
    lifetime_s = _read_lifetime(members, created_at)
    is_over = now >= created_at + timedelta(seconds=lifetime_s)
    # After its end a charge is only expired; the opener checks that. Before it, a person removed it.
    words = dict[str, Literal["active", "paid", "removed_by_us"]](
        ACTIVE="active", COMPLETED="paid", EXPIRED="active" if is_over else "removed_by_us"
    )
    code = wire.find_text(members, "brCode", _CODE_MAX)
    return OpenedCharge(
        txid=wire.take_text(members, "correlationID", _NAME_MAX),
        network_txid=wire.find_any_txid(members, "transactionID") or wire.find_any_txid(members, "identifier"),
        key=wire.find_text(members, "pixKey", KEY_LENGTH_MAX),
        amount_cents=wire.take_cents(members, "value"),
        status=wire.take_status(members, words),
        created_at=created_at,
        lifetime_s=lifetime_s,
        code=None if code is None else check_code(code),
        location=None,
    )


def _read_lifetime(members: Mapping[str, object], created_at: datetime) -> int:
    stated = members.get("expiresIn")
    # A text in the schema, a number in its examples.
    seconds = (
        int(stated) if isinstance(stated, str) and stated.isascii() and stated.isdecimal() and len(stated) <= 10 else stated
    )
    if type(seconds) is not int:
        ends_at = wire.find_instant(members, "expiresDate")
        if ends_at is None:
            raise wire.Malformed("expiresIn and expiresDate: there is no end")
        seconds = round((ends_at - created_at).total_seconds())
    if not 1 <= seconds <= _LIFETIME_MAX_S:
        raise wire.Malformed("expiresIn is no time that a charge can run")
    return seconds


def read_cents_pix(members: Mapping[str, object]) -> ReceivedPix | None:
    """Read a settled incoming Pix; ``None`` for any other transaction."""
    # Its document has the two members exchanged.
    words = {word for name in ("type", "status") if isinstance(word := members.get(name), str)}
    if "PAYMENT" not in words:
        return None
    # The document's examples call an incoming payment just a payment.
    is_bare = words == {"PAYMENT"} and None in (members.get("type"), members.get("status"))
    if not is_bare and not words & (_SETTLED_WORDS | _OPEN_WORDS):
        raise wire.Malformed("status is a word that we do not know")
    if not is_bare and not words & _SETTLED_WORDS:
        return None
    charge = as_members(members.get("charge")) or {}
    # A payment names the charge by the institution's txid; we know it by our name.
    ours = wire.find_text(charge, "correlationID", _NAME_MAX)
    return ReceivedPix(
        end_to_end_id=wire.take_end_to_end_id(members, "endToEndId"),
        txid=ours or wire.find_any_txid(members, "transactionID"),
        key=wire.find_text(charge, "pixKey", KEY_LENGTH_MAX),
        amount_cents=wire.take_cents(members, "value"),
        settled_at=wire.take_instant(members, "time"),
        payer=read_side(as_members(members.get("debitParty")) or {}, as_members(members.get("payer")) or {}),
        payer_message=wire.find_free_text(members, "infoPagador", 140),
    )


def find_charge_name(row: object) -> str | None:
    """Find the charge of a transaction with a return, by its maker's name for it."""
    members = as_members(row) or {}
    if not RETURNED_WORDS & {members.get("type"), members.get("status")}:
        return None
    name = (as_members(members.get("charge")) or {}).get("correlationID")
    return name if isinstance(name, str) and 0 < len(name) <= _NAME_MAX else None


def read_side(side: Mapping[str, object], named: Mapping[str, object]) -> Party:
    """Read the payer: the account's holder, or, if missing, the charge's registered customer."""
    holder = as_members(side.get("holder")) or named
    account, psp = as_members(side.get("account")) or {}, as_members(side.get("psp")) or {}
    return describe_party(
        name=wire.find_free_text(holder, "name", _NAME_MAX),
        tax_id=wire.find_free_text(as_members(holder.get("taxID")) or {}, "taxID", 18),
        ispb=wire.check_ispb(wire.find_free_text(psp, "id", 8)),
        branch=wire.find_free_text(account, "branch", 10),
        account_number=wire.find_free_text(account, "account", 30),
    )


def read_cents_refund(members: Mapping[str, object]) -> ListedRefund:
    status = wire.take_status(members, _REFUNDS)
    at = wire.find_instant(members, "time")
    return ListedRefund(
        id=wire.take_text(members, "correlationID", _NAME_MAX),
        return_id=wire.find_return_id(members, "returnIdentification"),
        amount_cents=wire.take_cents(members, "value"),
        status=status,
        asked_at=None,
        settled_at=at if status == "returned" else None,
    )


def list_ids(rows: Sequence[object], event: str, url: str) -> list[str]:
    """List the webhooks that notify this address of an event."""
    found = [as_members(row) or {} for row in rows]
    named = [row.get("id") for row in found if (row.get("event"), row.get("url")) == (event, url)]
    return [each for each in named if isinstance(each, str) and _WEBHOOK_ID.fullmatch(each)]
