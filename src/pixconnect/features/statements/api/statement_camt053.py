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
from pixconnect.features.statements.rules import Counterparty, Language, Statement, StatementLine
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
        document.write(*_make_header(statement))
        with document.element("Stmt"):
            document.write(*_make_body(statement))
            async for written in xml.write_lines(document, output, parts, _append_line, statement.language):
                yield written
    yield output.take()


def _make_header(statement: Statement) -> xml.Node:
    group = xml.make_group()
    header = xml.append(group, "GrpHdr")
    # Sufficiently unique, as the standard requires: two exports need different microseconds.
    xml.append(header, "MsgId", f"{statement.holder_id}-{int(statement.made_at.timestamp() * 1_000_000)}")
    xml.append(header, "CreDtTm", xml.format_xml_instant(statement.made_at))
    return group


def _make_body(statement: Statement) -> xml.Node:
    body, extent = xml.make_group(), statement.extent
    xml.append(body, "Id", f"{extent.first_number}-{extent.last_number}")
    xml.append(body, "CreDtTm", xml.format_xml_instant(statement.made_at))
    period = xml.append(body, "FrToDt")
    xml.append(period, "FrDtTm", xml.format_xml_instant(statement.initial_at))
    xml.append(period, "ToDtTm", xml.format_xml_instant(statement.final_at))
    _append_account(body, statement)
    _append_balance(body, "OPBD", extent.opening_cents, xml.format_xml_instant(statement.initial_at))
    _append_balance(body, "CLBD", extent.closing_cents, xml.format_xml_instant(statement.closed_at))
    xml.append_path(body, "TxsSummry/TtlNtries/NbOfNtries", str(extent.lines_count))
    return body


def _append_line(parent: xml.Node, line: StatementLine, language: Language) -> None:
    entry = xml.append(parent, "Ntry")
    line_id, booked_at = str(line.id), format_instant(line.created_at)
    xml.append(entry, "NtryRef", line_id)
    _append_amount(entry, line.amount_cents, is_credit=line.direction == "IN")
    xml.append_path(entry, "Sts/Cd", "BOOK")
    xml.append_path(entry, "BookgDt/DtTm", booked_at)
    xml.append_path(entry, "ValDt/DtTm", booked_at)
    xml.append(entry, "AcctSvcrRef", line_id)
    _append_code(entry, line)
    details = xml.append(xml.append(entry, "NtryDtls"), "TxDtls")
    references = xml.append(details, "Refs")
    xml.append(references, "EndToEndId", line.end_to_end_id or "NOTPROVIDED")
    if line.txid is not None:
        xml.append(references, "TxId", line.txid)
    if line.return_id is not None:
        reference = xml.append(references, "Prtry")
        xml.append(reference, "Tp", "RETURN_IDENTIFICATION")
        xml.append(reference, "Ref", line.return_id)
    if line.counterparty is not None:
        _append_counterparty(details, line.counterparty, "Dbtr" if line.direction == "IN" else "Cdtr")
    xml.append_path(details, "RmtInf/Ustrd", xml.clean(line.describe(language), 140))
    # References have room for 35 characters, and an external id may have 255.
    if line.external_id is not None:
        xml.append(details, "AddtlTxInf", xml.clean(line.external_id, 255))


def _append_code(entry: xml.Node, line: StatementLine) -> None:
    """Append the code of received and issued instant credit transfers, domestic or returned; others are miscellaneous."""
    # Deposits, movements, repayments and adjustments have no end-to-end id.
    if line.end_to_end_id is None:
        is_fee = line.movement is not None and line.movement.kind == "fee"
        family = "MCOP" if line.direction == "IN" else "MDOP"
        kind = "ADJT" if line.adjustment is not None else "FEES" if is_fee else "OTHR"
    else:
        family = "RRCT" if line.direction == "IN" else "IRCT"
        kind = "DMCT" if line.return_id is None else "RRTN"
    domain = xml.append(xml.append(entry, "BkTxCd"), "Domn")
    xml.append(domain, "Cd", "PMNT")
    codes = xml.append(domain, "Fmly")
    xml.append(codes, "Cd", family)
    xml.append(codes, "SubFmlyCd", kind)


def _append_counterparty(details: xml.Node, other: Counterparty, role: str) -> None:
    party = xml.append(xml.append(xml.append(details, "RltdPties"), role), "Pty")
    _append_party(party, other.name, other.tax_id)
    xml.append_path(details, f"RltdAgts/{role}Agt/FinInstnId/ClrSysMmbId/MmbId", other.ispb)


def _append_party(party: xml.Node, name: str, tax_id: str) -> None:
    if name:
        xml.append(party, "Nm", xml.clean(name, _NAME_MAX))
    # A CPF has 11 digits and is a person's; a CNPJ has 14 characters and is a company's.
    kind = "PrvtId" if len(tax_id) == 11 else "OrgId"
    identity = xml.append(xml.append(xml.append(party, "Id"), kind), "Othr")
    xml.append(identity, "Id", tax_id)
    xml.append_path(identity, "SchmeNm/Cd", "TXID")


def _append_account(body: xml.Node, statement: Statement) -> None:
    account = statement.account
    element = xml.append(body, "Acct")
    identity = xml.append(xml.append(element, "Id"), "Othr")
    xml.append(identity, "Id", account.account_number)
    xml.append(identity, "Issr", account.branch)  # as the Pix scheme's own messages do
    xml.append_path(element, "Tp/Cd", _ACCOUNT_TYPES[account.account_type])
    xml.append(element, "Ccy", "BRL")
    _append_party(xml.append(element, "Ownr"), account.name, account.tax_id)
    xml.append_path(element, "Svcr/FinInstnId/ClrSysMmbId/MmbId", account.ispb)


def _append_balance(body: xml.Node, code: str, amount_cents: int, as_of: str) -> None:
    balance = xml.append(body, "Bal")
    xml.append_path(balance, "Tp/CdOrPrtry/Cd", code)
    # None of our balances is negative.
    _append_amount(balance, amount_cents, is_credit=True)
    xml.append_path(balance, "Dt/DtTm", as_of)


def _append_amount(parent: xml.Node, amount_cents: int, *, is_credit: bool) -> None:
    xml.append(parent, "Amt", format_reais(amount_cents)).set("Ccy", "BRL")
    xml.append(parent, "CdtDbtInd", "CRDT" if is_credit else "DBIT")
