"""Efi's conciliation file of a closed day: one record a line, its columns by its kind, texts in base64, instants in UTC.

The account is debited when Efi accepts a Pix (``PEC``, ``PEB``) and credited again if it fails (``EPE``): both are items here,
and the rule of a day matches both with the order.

Source: Efi, "Extrato de Conciliacao API Pix", layout 4.0 of July 2023.
"""

from __future__ import annotations

import base64
import binascii
from datetime import date, datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind
from pixconnect.features.institutions.statement_files import statement_file as files
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.kernel.rules import identifiers
from pixconnect.platform.base.clock import to_day

_LINE_LENGTH_MAX: Final = 32 * 1024  # a received Pix has up to 18,336 characters of the charge's texts
_NOTES_MAX: Final = 100
_HEADER_COLUMNS: Final = ("CA", "institution", "bank", "branch", "account", "owner", "asked_on", "day", "title", "version")


class _Record(Struct, frozen=True):
    direction: Literal["IN", "OUT"]
    kind: ItemKind
    columns: tuple[str, ...]


_FEE: Final = ("protocol", "end_to_end_id", "amount", "at")
_WIRE: Final = ("protocol", "wire_id", "amount", "at")
_SENT: Final = ("protocol", "end_to_end_id", "send_id", "amount")
# Lines other than requested Pix: a returned transfer is the reversal of one.
_RECORDS: Final = dict(
    PR=_Record("IN", "pix", ("protocol", "end_to_end_id", "txid", "amount", "tax_id", "text", "more", "at")),
    PEC=_Record("OUT", "pix", (*_SENT, "key", "text", "origin", "at")),
    PEB=_Record("OUT", "pix", (*_SENT, "name", "tax_id", "ispb", "branch", "account", "type", "text", "origin", "at")),
    EPE=_Record("IN", "reversal", _FEE),
    PDE=_Record("OUT", "refund", ("protocol", "end_to_end_id", "txid", "refund_id", "return_id", "amount", "at")),
    PDR=_Record("IN", "refund", ("protocol", "end_to_end_id", "return_id", "amount", "at")),
    TPR=_Record("OUT", "fee", _FEE),
    TPE=_Record("OUT", "fee", _FEE),
    ETPR=_Record("IN", "fee", _FEE),
    ETPE=_Record("IN", "fee", _FEE),
    TFE=_Record("OUT", "wire", _WIRE),
    TFR=_Record("IN", "wire", _WIRE),
    ETFE=_Record("IN", "reversal", _WIRE),
    TTFE=_Record("OUT", "fee", _WIRE),
    ETTFE=_Record("IN", "fee", _WIRE),
)
# The layout's own example of a sent Pix's fee also has the names of a return.
_OTHER_COLUMNS: Final = {
    ("TPE", 8): ("protocol", "end_to_end_id", "txid", "refund_id", "return_of", "amount", "at"),
    ("TFE", 6): ("protocol", "wire_id", "amount", "text", "at"),
    ("TFR", 6): ("protocol", "wire_id", "amount", "text", "at"),
}


def read_efi_file(content: bytes) -> files.StatementFile:
    """Read the file of one day; ``InvalidStatement`` if it is none, or its trailer counts other records than it has."""
    files.check_content(content)
    rows = files.split_lines(_decode(content))
    for number, line in rows:
        if len(line) > _LINE_LENGTH_MAX:
            raise files.InvalidStatement(f"it has more than {_LINE_LENGTH_MAX} characters", number)
    last, header, trailer = rows[-1][0], rows[0][1].split(";"), rows[-1][1].split(";")
    if header[0] != "CA" or len(header) != len(_HEADER_COLUMNS):
        raise files.InvalidStatement(f"CA: the header must have {len(_HEADER_COLUMNS)} columns", rows[0][0])
    members = dict(zip(_HEADER_COLUMNS, header, strict=True))
    day = _parse_day(members["day"], "CA", rows[0][0])
    items, balances, count, notes = files.ItemList(), dict[str, files.StatedBalance](), 0, list[str]()
    # Columns of one line at a time: a day of a busy account has a hundred thousand.
    for number, row in ((number, line.split(";")) for number, line in rows[1:-1]):
        if row[0] in ("SD0", "SD1"):
            balances[row[0]] = _read_balance(row, number, day)
        else:
            items.add(_read_item(row, number, notes), number)
            count += 1
    # The trailer does not count the balances, contrary to its first sentence.
    if trailer[0] != "T" or len(trailer) < 2 or trailer[1] not in (str(count), str(len(rows) - 2)):
        raise files.InvalidStatement(f"T: the trailer must count the {count} records before it: the file is cut off", last)
    return files.StatementFile(
        format="efi",
        account=StatementAccount(
            bank=files.clean_text(members["bank"]),
            branch=files.clean_text(members["branch"]),
            number=files.clean_text(members["account"]),
        ),
        first_on=day,
        last_on=day,
        opening=balances.get("SD0"),
        closing=balances.get("SD1"),
        items=items.items,
        notes=tuple(notes),
    )


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Only people's names have other characters than ASCII.
        return content.decode("cp1252", "replace")


def _read_balance(row: list[str], number: int, day: date) -> files.StatedBalance:
    if len(row) != 3:
        raise files.InvalidStatement(f"{row[0]}: must have 3 columns", number)
    found = files.StatedBalance(cents=files.parse_cents(row[1], row[0], number), on=_parse_day(row[2], row[0], number))
    of = day - timedelta(days=1) if row[0] == "SD0" else day
    if found.on != of:
        raise files.InvalidStatement(f"{row[0]}: must be of {of}", number)
    return found


def _read_item(row: list[str], number: int, notes: list[str]) -> InstitutionItem | None:
    record = _RECORDS.get(row[0])
    if record is None:
        raise files.InvalidStatement(f"{row[0][:10]!r} is no record of this file", number)
    columns = _OTHER_COLUMNS.get((row[0], len(row)), record.columns)
    if "name" in columns and (more := len(row) - len(columns) - 1) > 0:
        # A name is the only column that may have a separator in it.
        at = columns.index("name") + 1
        row = [*row[:at], ";".join(row[at : at + more + 1]), *row[at + more + 1 :]]
    if len(row) != len(columns) + 1:
        raise files.InvalidStatement(f"{row[0]}: must have {len(columns) + 1} columns", number)
    members = dict(zip(columns, (text.strip() for text in row[1:]), strict=True))
    at = _parse_instant(members["at"], number)
    amount_cents = files.parse_cents(members["amount"], "amount", number)
    if amount_cents < 0:
        raise files.InvalidStatement("amount: must not be below 0", number)
    if amount_cents == 0:
        return None
    # A protocol is of one movement of money; the name distinguishes movements that an older file gives one protocol.
    name = members.get("return_id") or members.get("end_to_end_id") or members["wire_id"]
    if not members["protocol"]:
        raise files.InvalidStatement("protocol: is missing", number)
    item_id = ":".join((row[0], members["protocol"], name))
    return InstitutionItem(
        item_id=files.check_item_id(item_id, "protocol", number),
        day=to_day(at),
        settled_at=at,
        direction=record.direction,
        amount_cents=amount_cents,
        kind=record.kind,
        end_to_end_id=_check_name(members.get("end_to_end_id"), "end_to_end_id", number),
        return_id=_check_name(members.get("return_id"), "return_id", number),
        txid=files.clean_text(members.get("txid", "")) or None,
        tax_id=files.clean_text(members.get("tax_id", "")) or None,
        counterparty=files.clean_text(members.get("name", "")) or None,
        text=files.clean_text(_decode_text(members.get("text", ""), number, notes)),
    )


def _check_name(name: str | None, field: str, number: int) -> str | None:
    if name is not None and not (identifiers.is_end_to_end_id(name) or identifiers.is_return_id(name)):
        raise files.InvalidStatement(f"{field}: {name[:40]!r} is no name of the network", number)
    return name


def _decode_text(text: str, number: int, notes: list[str]) -> str:
    try:
        return _decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        # It moves no money.
        if len(notes) < _NOTES_MAX:
            notes.append(f"line {number}: a text is not in base64, and is read as it stands")
        return text


def _parse_day(text: str, field: str, number: int) -> date:
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        raise files.InvalidStatement(f"{field}: {text[:40]!r} is no day", number) from None


def _parse_instant(text: str, number: int) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise files.InvalidStatement(f"{text[:40]!r} is no instant in UTC", number)
    return instant
