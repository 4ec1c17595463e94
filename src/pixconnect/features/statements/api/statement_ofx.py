"""A statement as OFX 2.1.1, which programs for personal and small business accounts read.

OFX has fewer fields: an amount is signed, an instant has milliseconds, a name has 32 characters, and a line has no running
balance and no counterparty's tax id. ``FITID`` is the line's id, ``REFNUM`` its ``end_to_end_id``.
"""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

from pixconnect.features.statements.api import statement_xml as xml
from pixconnect.features.statements.rules import Language, Statement, StatementLine
from pixconnect.kernel.rules.money import format_reais

_DECLARATIONS: Final = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\r\n'
    b'<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" OLDFILEUID="NONE" NEWFILEUID="NONE"?>\r\n'
)


async def write(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    output = xml.Output()
    output.write(_DECLARATIONS)
    with xml.open_document(output) as document, document.element("OFX"):
        document.write(*_make_signon(statement))
        with document.element("BANKMSGSRSV1"), document.element("STMTTRNRS"):
            document.write(*_make_answer())
            with document.element("STMTRS"):
                document.write(*_make_account(statement))
                with document.element("BANKTRANLIST"):
                    document.write(*_make_period(statement))
                    async for written in xml.write_lines(document, output, parts, _append_line, statement.language):
                        yield written
                document.write(*_make_balances(statement))
    yield output.take()


def _append_line(parent: xml.Node, line: StatementLine, language: Language) -> None:
    element = xml.append(parent, "STMTTRN")
    is_in = line.direction == "IN"
    is_fee = line.movement is not None and line.movement.kind == "fee"
    kind = "OTHER" if line.adjustment is not None else "FEE" if is_fee else "CREDIT" if is_in else "DEBIT"
    xml.append(element, "TRNTYPE", kind)
    xml.append(element, "DTPOSTED", _instant(line.created_at))
    xml.append(element, "TRNAMT", ("" if is_in else "-") + format_reais(line.amount_cents))
    xml.append(element, "FITID", str(line.id))
    if line.end_to_end_id is not None:
        xml.append(element, "REFNUM", line.end_to_end_id)
    if line.counterparty is not None and line.counterparty.name:
        xml.append(element, "NAME", xml.clean(line.counterparty.name, 32))
    # Facts without a field are in the memo.
    memo = " ".join(part for part in (line.return_id, line.describe(language)) if part)
    memo += f" | external_id {line.external_id}" if line.external_id else ""
    memo += f" | txid {line.txid}" if line.txid else ""
    xml.append(element, "MEMO", xml.clean(memo, 255))


def _make_signon(statement: Statement) -> xml.Node:
    group = xml.make_group()
    answer = xml.append(xml.append(group, "SIGNONMSGSRSV1"), "SONRS")
    _append_status(answer)
    xml.append(answer, "DTSERVER", _instant(statement.made_at))
    # OFX names languages by ISO 639-2.
    xml.append(answer, "LANGUAGE", "POR" if statement.language == "pt" else "ENG")
    institution = xml.append(answer, "FI")
    xml.append(institution, "ORG", xml.clean(statement.account.bank or statement.account.ispb, 32))
    xml.append(institution, "FID", statement.account.ispb)
    return group


def _make_answer() -> xml.Node:
    group = xml.make_group()
    # Zero is for a file that answers no request.
    xml.append(group, "TRNUID", "0")
    _append_status(group)
    return group


def _append_status(parent: xml.Node) -> None:
    status = xml.append(parent, "STATUS")
    xml.append(status, "CODE", "0")
    xml.append(status, "SEVERITY", "INFO")


def _make_account(statement: Statement) -> xml.Node:
    group, account = xml.make_group(), statement.account
    xml.append(group, "CURDEF", "BRL")
    element = xml.append(group, "BANKACCTFROM")
    xml.append(element, "BANKID", account.ispb)
    xml.append(element, "BRANCHID", account.branch)
    xml.append(element, "ACCTID", account.account_number)
    # OFX has neither salary nor transactional accounts.
    xml.append(element, "ACCTTYPE", "SAVINGS" if account.account_type == "SAVINGS" else "CHECKING")
    return group


def _make_period(statement: Statement) -> xml.Node:
    group = xml.make_group()
    xml.append(group, "DTSTART", _instant(statement.initial_at))
    xml.append(group, "DTEND", _instant(statement.final_at))
    return group


def _make_balances(statement: Statement) -> xml.Node:
    group = xml.make_group()
    closing = xml.append(group, "LEDGERBAL")
    xml.append(closing, "BALAMT", format_reais(statement.extent.closing_cents))
    xml.append(closing, "DTASOF", _instant(statement.closed_at))
    opening = xml.append(xml.append(group, "BALLIST"), "BAL")
    xml.append(opening, "NAME", "OPENING")
    xml.append(opening, "DESC", "Balance before the first line")
    # OFX has no opening balance; DOLLAR marks the value as money, in the account's currency.
    xml.append(opening, "BALTYPE", "DOLLAR")
    xml.append(opening, "VALUE", format_reais(statement.extent.opening_cents))
    xml.append(opening, "DTASOF", _instant(statement.initial_at))
    return group


def _instant(instant: datetime) -> str:
    """Write an instant of any year: ``%Y`` writes early ones with fewer digits.

    Example:
        >>> _instant(datetime(2026, 1, 2, 3, 4, 5, 6999, UTC))
        '20260102030405.006[0:GMT]'
    """
    utc = instant.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%d%H%M%S}.{utc.microsecond // 1000:03}[0:GMT]"
