"""A statement as ISO 20022 camt.053.001.08, which banks and accounting systems read.

``NtryRef`` and ``AcctSvcrRef`` are the line's id, ``EndToEndId`` its ``end_to_end_id`` or ``NOTPROVIDED``, ``TxId`` the txid,
as in the network's own messages; a refund's ``return_identification`` is a proprietary reference.

Source:
    ISO 20022 camt.053.001.08; bank transaction codes of the external code sets (domain PMNT).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Final

from pixconnect.features.statements.api import statement_xml as xml
from pixconnect.features.statements.rules import Language, Statement, StatementLine
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base.clock import format_instant

_NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
_DECLARATION: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n'
# Max140Text.
_NAME_MAX: Final = 140
_ACCOUNT_TYPES: Final = dict(CHECKING="CACC", SAVINGS="SVGS", SALARY="SLRY", TRANSACTIONAL="TRAN")


async def write(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    output = xml.Output()
    output.write(_DECLARATION)
    with (
        xml.open_document(output) as document,
        document.element("Document", nsmap={None: _NAMESPACE}),
        document.element("BkToCstmrStmt"),
    ):
        made_at = xml.format_xml_instant(statement.made_at)
        # Sufficiently unique, as the standard requires: two exports need different microseconds.
        message_id = f"{statement.holder_id}-{int(statement.made_at.timestamp() * 1_000_000)}"
        document.write(*xml.make({"GrpHdr": {"MsgId": message_id, "CreDtTm": made_at}}))
        with document.element("Stmt"):
            document.write(*xml.make(_show_head(statement, made_at)))
            async for written in xml.write_lines(document, output, parts, _show_line, statement.language):
                yield written
    yield output.take()


def _show_head(statement: Statement, made_at: str) -> xml.Tree:
    account, extent = statement.account, statement.extent
    initial_at = xml.format_xml_instant(statement.initial_at)
    return {
        "Id": f"{extent.first_number}-{extent.last_number}",
        "CreDtTm": made_at,
        "FrToDt": {"FrDtTm": initial_at, "ToDtTm": xml.format_xml_instant(statement.final_at)},
        "Acct": {
            # The issuer is the branch, as in the Pix scheme's own messages.
            "Id": {"Othr": {"Id": account.account_number, "Issr": account.branch}},
            "Tp": {"Cd": _ACCOUNT_TYPES[account.account_type]},
            "Ccy": "BRL",
            "Ownr": _show_party(account.name, account.tax_id),
            "Svcr": _show_institution(account.ispb),
        },
        "Bal": [
            _show_balance("OPBD", extent.opening_cents, initial_at),
            _show_balance("CLBD", extent.closing_cents, xml.format_xml_instant(statement.closed_at)),
        ],
        "TxsSummry": {"TtlNtries": {"NbOfNtries": str(extent.lines_count)}},
    }


def _show_line(line: StatementLine, language: Language) -> xml.Tree:
    line_id, booked_at = str(line.id), {"DtTm": format_instant(line.created_at)}
    named = None if line.return_id is None else {"Tp": "RETURN_IDENTIFICATION", "Ref": line.return_id}
    references: xml.Tree = {"EndToEndId": line.end_to_end_id or "NOTPROVIDED", "TxId": line.txid, "Prtry": named}
    details: dict[str, xml.Content] = {"Refs": references}
    if line.counterparty is not None:
        other, role = line.counterparty, "Dbtr" if line.direction == "IN" else "Cdtr"
        details["RltdPties"] = {role: {"Pty": _show_party(other.name, other.tax_id)}}
        details["RltdAgts"] = {f"{role}Agt": _show_institution(other.ispb)}
    details["RmtInf"] = {"Ustrd": xml.clean(line.describe(language), 140)}
    # References have room for 35 characters, and an external id may have 255.
    details["AddtlTxInf"] = None if line.external_id is None else xml.clean(line.external_id, 255)
    family, kind = _choose_code(line)
    shown: xml.Tree = {
        "NtryRef": line_id,
        **_show_amount(line.amount_cents, is_credit=line.direction == "IN"),
        "Sts": {"Cd": "BOOK"},
        "BookgDt": booked_at,
        "ValDt": booked_at,
        "AcctSvcrRef": line_id,
        "BkTxCd": {"Domn": {"Cd": "PMNT", "Fmly": {"Cd": family, "SubFmlyCd": kind}}},
        "NtryDtls": {"TxDtls": details},
    }
    return {"Ntry": shown}


def _choose_code(line: StatementLine) -> tuple[str, str]:
    """Choose the code of a received or issued instant credit transfer, domestic or returned; others are miscellaneous."""
    is_in = line.direction == "IN"
    if line.end_to_end_id is not None:
        return "RRCT" if is_in else "IRCT", "DMCT" if line.return_id is None else "RRTN"
    # Deposits, movements, repayments and adjustments have no end-to-end id.
    is_fee = line.movement is not None and line.movement.kind == "fee"
    return "MCOP" if is_in else "MDOP", "ADJT" if line.adjustment is not None else "FEES" if is_fee else "OTHR"


def _show_party(name: str, tax_id: str) -> xml.Tree:
    # A CPF has 11 digits and is a person's; a CNPJ has 14 characters and is a company's.
    kind = "PrvtId" if len(tax_id) == 11 else "OrgId"
    identity: xml.Tree = {"Othr": {"Id": tax_id, "SchmeNm": {"Cd": "TXID"}}}
    return {"Nm": xml.clean(name, _NAME_MAX) if name else None, "Id": {kind: identity}}


def _show_institution(ispb: str) -> xml.Tree:
    return {"FinInstnId": {"ClrSysMmbId": {"MmbId": ispb}}}


def _show_balance(code: str, amount_cents: int, as_of: str) -> xml.Tree:
    # None of our balances is negative.
    amount = _show_amount(amount_cents, is_credit=True)
    return {"Tp": {"CdOrPrtry": {"Cd": code}}, **amount, "Dt": {"DtTm": as_of}}


def _show_amount(amount_cents: int, *, is_credit: bool) -> xml.Tree:
    return {"Amt": (format_reais(amount_cents), {"Ccy": "BRL"}), "CdtDbtInd": "CRDT" if is_credit else "DBIT"}
