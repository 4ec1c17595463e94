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
_STATUS: Final = {"CODE": "0", "SEVERITY": "INFO"}


async def write(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    output = xml.Output()
    output.write(_DECLARATIONS)
    with xml.open_document(output) as document, document.element("OFX"):
        document.write(*xml.make(_show_signon(statement)))
        with document.element("BANKMSGSRSV1"), document.element("STMTTRNRS"):
            # Zero is for a file that answers no request.
            document.write(*xml.make({"TRNUID": "0", "STATUS": _STATUS}))
            with document.element("STMTRS"):
                document.write(*xml.make(_show_account(statement)))
                with document.element("BANKTRANLIST"):
                    period = {"DTSTART": _instant(statement.initial_at), "DTEND": _instant(statement.final_at)}
                    document.write(*xml.make(period))
                    async for written in xml.write_lines(document, output, parts, _show_line, statement.language):
                        yield written
                document.write(*xml.make(_show_balances(statement)))
    yield output.take()


def _show_signon(statement: Statement) -> xml.Tree:
    account = statement.account
    answer: xml.Tree = {
        "STATUS": _STATUS,
        "DTSERVER": _instant(statement.made_at),
        # OFX names languages by ISO 639-2.
        "LANGUAGE": "POR" if statement.language == "pt" else "ENG",
        "FI": {"ORG": xml.clean(account.bank or account.ispb, 32), "FID": account.ispb},
    }
    return {"SIGNONMSGSRSV1": {"SONRS": answer}}


def _show_account(statement: Statement) -> xml.Tree:
    account = statement.account
    # OFX has neither salary nor transactional accounts.
    kind = "SAVINGS" if account.account_type == "SAVINGS" else "CHECKING"
    number = account.account_number
    return {
        "CURDEF": "BRL",
        "BANKACCTFROM": {"BANKID": account.ispb, "BRANCHID": account.branch, "ACCTID": number, "ACCTTYPE": kind},
    }


def _show_line(line: StatementLine, language: Language) -> xml.Tree:
    is_in = line.direction == "IN"
    is_fee = line.movement is not None and line.movement.kind == "fee"
    name = line.counterparty and line.counterparty.name
    # Facts without a field are in the memo.
    memo = " ".join(part for part in (line.return_id, line.describe(language)) if part)
    memo += f" | external_id {line.external_id}" if line.external_id else ""
    memo += f" | txid {line.txid}" if line.txid else ""
    shown: xml.Tree = {
        "TRNTYPE": "OTHER" if line.adjustment is not None else "FEE" if is_fee else "CREDIT" if is_in else "DEBIT",
        "DTPOSTED": _instant(line.created_at),
        "TRNAMT": ("" if is_in else "-") + format_reais(line.amount_cents),
        "FITID": str(line.id),
        "REFNUM": line.end_to_end_id,
        "NAME": xml.clean(name, 32) if name else None,
        "MEMO": xml.clean(memo, 255),
    }
    return {"STMTTRN": shown}


def _show_balances(statement: Statement) -> xml.Tree:
    extent = statement.extent
    # OFX has no opening balance; DOLLAR marks the value as money, in the account's currency.
    opening: xml.Tree = {
        "NAME": "OPENING",
        "DESC": "Balance before the first line",
        "BALTYPE": "DOLLAR",
        "VALUE": format_reais(extent.opening_cents),
        "DTASOF": _instant(statement.initial_at),
    }
    closing = {"BALAMT": format_reais(extent.closing_cents), "DTASOF": _instant(statement.closed_at)}
    return {"LEDGERBAL": closing, "BALLIST": {"BAL": opening}}


def _instant(instant: datetime) -> str:
    """Write an instant of any year: ``%Y`` writes early ones with fewer digits.

    Example:
        >>> _instant(datetime(2026, 1, 2, 3, 4, 5, 6999, UTC))
        '20260102030405.006[0:GMT]'
    """
    utc = instant.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%d%H%M%S}.{utc.microsecond // 1000:03}[0:GMT]"
