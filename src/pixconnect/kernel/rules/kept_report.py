"""Reports of the rail for an operator: the reasons to keep one, and the stored form.

A report is kept where recording it would be a guess: it names an unknown order, contradicts an earlier one, comes again with
other contents, or cannot be recorded at all. It is also kept where it cannot be accepted, and the rail does not permit refusing
it, or the holder already had a deficit.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules import money, rail

Reason = Literal[
    "unknown_order",
    "contradiction",
    "changed_repeat",
    "cannot_be_recorded",
    "cannot_be_refused",
    "cannot_be_returned",
    "another_account",
    "two_holders",
]

NAME_LENGTH: Final = 32
ITEM_ID_LENGTH_MAX: Final = 64
DESCRIPTION_LENGTH_MAX: Final = 140
TXID_LENGTH_MAX: Final = 35


class NeverTakenAnswer(rail.Report, frozen=True, kw_only=True, tag="never_taken"):
    """The rail's answer to a query, in the form of a report so that it can be kept like one."""

    id: str

    @property
    def subject(self) -> str:
        return self.id


class TakenAnswer(rail.Report, frozen=True, kw_only=True, tag="taken"):
    """Likewise, for an order that the rail has."""

    id: str
    network_id: str | None

    @property
    def subject(self) -> str:
        return self.id


class KeptItem(rail.Report, frozen=True, kw_only=True, tag="unreadable"):
    """An unreadable item of an institution's list."""

    name: str  # its subject, if that is readable
    account: str  # the account's name here
    content: str  # as sent, cut if long

    @property
    def subject(self) -> str:
        return self.name


class Misfit(Struct, frozen=True, kw_only=True):
    """Why a report cannot simply be recorded."""

    reason: Reason
    explanation: str


def find_other_account(credited_id: int | None, reported_id: int | None) -> Misfit | None:
    """Find a payment that two accounts at institutions, or an account and the installation's own rail, report."""
    if credited_id == reported_id:
        return None
    both = f"it was credited on the account {credited_id} and is reported on {reported_id} too"
    return Misfit(reason="another_account", explanation=both)


def find_change(compared: Mapping[str, tuple[object, object]]) -> Misfit | None:
    """Find the differences of a repetition, by member with old and new value."""
    changed = [f"{name} was {before} and is {after}" for name, (before, after) in compared.items() if before != after]
    return Misfit(reason="changed_repeat", explanation="; ".join(changed)) if changed else None


class KeptReport(Struct, frozen=True, kw_only=True):
    """A report that waits for an operator, or that one has closed."""

    id: int
    kind: str
    reason: Reason
    explanation: str
    name: str
    report_id: str
    report: str
    refusal_code: str | None  # our refusal code for a payment or return
    seen_count: int
    first_seen_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    close_reason: str | None


_LEAVES: Final = {"institution_return": True, "credit": False, "credit_held": False, "return": False}
"""Reports of money that moved or is held, and whether it left the account."""


def find_amount(kept: KeptReport) -> int | None:
    """Return a kept report's sum on the account, in cents, negative for outgoing money; ``None`` if no money moved."""
    try:
        report: Any = msgspec.json.decode(kept.report)
        cents = int(report["amount_cents"])
        leaves = report["direction"] == "OUT" if kept.kind == "movement" else _LEAVES[kept.kind]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
    return -cents if leaves else cents


def kind_of(report: rail.Report) -> str:
    return str(type(report).__struct_config__.tag)


def is_name(text: str) -> bool:
    return len(text) == NAME_LENGTH and text[0] in "ED" and is_text(text)


def as_report(name: str, answer: rail.Settled | rail.Rejected | rail.NeverTaken | rail.Taken) -> rail.Report:
    """Turn the rail's answer about one of our orders into a report of it."""
    match answer:
        case rail.Settled(settled_at=settled_at, network_id=network_id):
            return rail.SettledReport(report_id=name, id=name, settled_at=settled_at, network_id=network_id)
        case rail.Rejected(code=code, reason=reason, network_id=network_id):
            return rail.RejectedReport(report_id=name, id=name, code=code, reason=reason, network_id=network_id)
        case rail.NeverTaken():
            return NeverTakenAnswer(report_id=name, id=name)
        case rail.Taken(network_id=network_id):
            return TakenAnswer(report_id=name, id=name, network_id=network_id)


def encode(kept: rail.Report) -> str:
    # In ASCII with escapes, so that any text can be kept, even half surrogates.
    return json.dumps(msgspec.to_builtins(kept), ensure_ascii=True)


def fingerprint(kept: rail.Report, reason: Reason) -> bytes:
    """Hash a report's subject and contents, so that every repetition has the same fingerprint."""
    members: dict[str, Any] = msgspec.to_builtins(kept)
    # A repetition may have another number and another time.
    for passing in ("report_id", "reported_at", "settled_at"):
        members.pop(passing, None)
    # Added later: a report without parts keeps its earlier fingerprint.
    if members.get("parts") is None:
        members.pop("parts", None)
    # The 1 is the version of this form: fingerprints are stored.
    return hashlib.sha256(json.dumps([1, reason, members], sort_keys=True).encode()).digest()


def storable(text: str, length_max: int = 255) -> str:
    """Cut a text, and replace characters that PostgreSQL rejects."""
    return text[:length_max].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def find_fault(report: rail.Report) -> str | None:
    """Return why a report can never be recorded, naming field and rule; ``None`` if it can."""
    # Nearly all reports are plain, and one check of the whole is faster than one of each text.
    if not _is_plain(report):
        for field, text in _texts(msgspec.to_builtins(report)):
            if not is_text(text):
                return f"{field}: holds a character that is no text"
    if isinstance(report, rail.CreditReport | rail.ReturnReport):
        return _find_fault_of_arrival(report)
    if isinstance(report, rail.MovementReport):
        return _find_fault_of_movement(report)
    return None if isinstance(report, rail.SettledReport | rail.RejectedReport) else report.find_fault()


def _find_fault_of_arrival(report: rail.CreditReport | rail.ReturnReport) -> str | None:
    # Detects what the tables would reject, so that the report is kept with a reason.
    letter, field = ("E", "end_to_end_id") if isinstance(report, rail.CreditReport) else ("D", "return_id")
    name = report.subject
    if not is_name(name) or name[0] != letter:
        return f"{field}: must have {NAME_LENGTH} characters and begin with {letter}"
    if (fault := find_fault_of_amount(report.amount_cents)) is not None:
        return fault
    if report.reported_at.tzinfo is None or (report.settled_at or report.reported_at).tzinfo is None:
        return "reported_at, settled_at: must have a time zone"
    if isinstance(report, rail.CreditHeld) and report.until.tzinfo is None:
        return "until: must have a time zone"
    if isinstance(report, rail.CreditReport) and report.txid is not None and not 0 < len(report.txid) <= TXID_LENGTH_MAX:
        return f"txid: must have 1 to {TXID_LENGTH_MAX} characters"
    return None


def _find_fault_of_movement(report: rail.MovementReport) -> str | None:
    for field, text, length_max in (
        ("item_id", report.item_id, ITEM_ID_LENGTH_MAX),
        ("end_to_end_id", report.end_to_end_id or "-", ITEM_ID_LENGTH_MAX),
        ("description", report.description or "-", DESCRIPTION_LENGTH_MAX),
    ):
        if not 0 < len(text) <= length_max:
            return f"{field}: must have 1 to {length_max} characters"
    if report.settled_at.tzinfo is None:
        return "settled_at: must have a time zone"
    if report.kind == "opening_balance" and report.amount_cents == 0:
        return None
    return find_fault_of_amount(report.amount_cents)


def find_fault_of_amount(amount_cents: int) -> str | None:
    if money.AMOUNT_MIN_CENTS <= amount_cents <= money.AMOUNT_MAX_CENTS:
        return None
    return f"amount_cents: must be from {money.AMOUNT_MIN_CENTS} to {money.AMOUNT_MAX_CENTS}"


def _is_plain(report: rail.Report) -> bool:
    try:
        return b"\\u0000" not in msgspec.json.encode(report)
    except UnicodeEncodeError:
        return False


def is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _texts(members: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field, value in members.items():
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, dict):
            yield from ((f"{field}.{name}", text) for name, text in _texts(cast("dict[str, Any]", value)))
        elif isinstance(value, list | tuple):
            listed = enumerate(cast("list[Any]", value))
            yield from _texts({f"{field}[{place}]": one for place, one in listed})
