"""A statement as OFX 2.1.1, which programs for personal and small business accounts read.

OFX has room for less: an amount is signed, an instant has milliseconds, a name has 32 characters, and there is no place for a
line's running balance or for the counterparty's tax id. ``FITID`` is the line's id, ``REFNUM`` its ``end_to_end_id``.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pixconnect.api import statement_xml as xml
from pixconnect.domain.money import format_reais
from pixconnect.domain.statement import Statement, StatementLine

_DECLARATIONS: Final = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\r\n'
    b'<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" OLDFILEUID="NONE" NEWFILEUID="NONE"?>\r\n'
)


def write_frame(statement: Statement) -> tuple[bytes, bytes]:
    """What comes before the lines, and what after."""
    root = xml.open_root("OFX")
    _append_signon(xml.append(xml.append(root, "SIGNONMSGSRSV1"), "SONRS"), statement)
    answer = xml.append(xml.append(root, "BANKMSGSRSV1"), "STMTTRNRS")
    xml.append(answer, "TRNUID", "0")
    _append_status(answer)
    body = xml.append(answer, "STMTRS")
    xml.append(body, "CURDEF", "BRL")
    _append_account(body, statement)
    lines = xml.append(body, "BANKTRANLIST")
    xml.append(lines, "DTSTART", _instant(statement.initial_at))
    xml.append(lines, "DTEND", _instant(statement.final_at))
    xml.mark_lines(lines)
    _append_balances(body, statement)
    head, tail = xml.cut_at_lines(root)
    return _DECLARATIONS + head, tail


def write_lines(lines: Sequence[StatementLine]) -> bytes:
    """Some of the lines."""
    return xml.write_lines(lines, _append_line)


def _append_line(parent: xml.Node, line: StatementLine) -> None:
    element = xml.append(parent, "STMTTRN")
    is_in = line.direction == "IN"
    xml.append(element, "TRNTYPE", "CREDIT" if is_in else "DEBIT")
    xml.append(element, "DTPOSTED", _instant(line.created_at))
    xml.append(element, "TRNAMT", ("" if is_in else "-") + format_reais(line.amount_cents))
    xml.append(element, "FITID", str(line.id))
    if line.end_to_end_id is not None:
        xml.append(element, "REFNUM", line.end_to_end_id)
    if line.counterparty is not None and line.counterparty.name:
        xml.append(element, "NAME", xml.clean(line.counterparty.name, 32))
    memo = " ".join(part for part in (line.return_id, line.description) if part)
    if memo:
        xml.append(element, "MEMO", xml.clean(memo, 255))


def _append_signon(parent: xml.Node, statement: Statement) -> None:
    _append_status(parent)
    xml.append(parent, "DTSERVER", _instant(statement.made_at))
    xml.append(parent, "LANGUAGE", "POR")
    institution = xml.append(parent, "FI")
    xml.append(institution, "ORG", xml.clean(statement.account.bank or statement.account.ispb, 32))
    xml.append(institution, "FID", statement.account.ispb)


def _append_status(parent: xml.Node) -> None:
    status = xml.append(parent, "STATUS")
    xml.append(status, "CODE", "0")
    xml.append(status, "SEVERITY", "INFO")


def _append_account(parent: xml.Node, statement: Statement) -> None:
    account = statement.account
    element = xml.append(parent, "BANKACCTFROM")
    xml.append(element, "BANKID", account.ispb)
    xml.append(element, "BRANCHID", account.branch)
    xml.append(element, "ACCTID", account.account_number)
    # OFX knows neither salary nor transactional accounts.
    xml.append(element, "ACCTTYPE", "SAVINGS" if account.account_type == "SAVINGS" else "CHECKING")


def _append_balances(parent: xml.Node, statement: Statement) -> None:
    closing = xml.append(parent, "LEDGERBAL")
    xml.append(closing, "BALAMT", format_reais(statement.extent.closing_cents))
    xml.append(closing, "DTASOF", _instant(statement.closed_at))
    opening = xml.append(xml.append(parent, "BALLIST"), "BAL")
    xml.append(opening, "NAME", "OPENING")
    xml.append(opening, "DESC", "Balance before the first line")
    xml.append(opening, "BALTYPE", "DOLLAR")
    xml.append(opening, "VALUE", format_reais(statement.extent.opening_cents))
    xml.append(opening, "DTASOF", _instant(statement.initial_at))


def _instant(instant: datetime) -> str:
    """Of any year: ``%Y`` writes early ones with fewer digits.

    Example:
        >>> _instant(datetime(2026, 1, 2, 3, 4, 5, 6999, UTC))
        '20260102030405.006[0:GMT]'
    """
    utc = instant.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%d%H%M%S}.{utc.microsecond // 1000:03}[0:GMT]"
