"""Statements as XML files: ISO 20022 camt.053.001.08 for banks and accounting systems, and OFX 2.1.1 for small programs.

Elements are built without a namespace and written into a document with a default one, which then applies: with a namespace of
its own, each element would repeat it. A document is sent while it is written.

In camt.053 ``NtryRef`` and ``AcctSvcrRef`` are the line's id, ``EndToEndId`` its ``end_to_end_id`` or ``NOTPROVIDED``, ``TxId``
the txid, as in the network's own messages; a refund's ``return_identification`` is a proprietary reference. OFX has fewer
fields: an amount is signed, an instant has milliseconds, a name has 32 characters, and a line has no running balance and no
counterparty's tax id. ``FITID`` is the line's id, ``REFNUM`` its ``end_to_end_id``.

Source:
    ISO 20022 camt.053.001.08; bank transaction codes of the external code sets (domain PMNT).
"""

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Final, Protocol, TypeAlias, cast

from pixconnect.features.statements.rules import Language, Statement, StatementLine
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base.clock import format_instant


class Node(Protocol):
    """The part of lxml's elements that we use."""

    text: str | None

    def set(self, name: str, value: str, /) -> None:
        """Add an attribute."""
        ...

    def __iter__(self) -> "Iterator[Node]": ...


class XmlDocument(Protocol):
    """A document that is being written."""

    def element(self, tag: str, /, *, nsmap: Mapping[None, str] | None = None) -> AbstractContextManager[object]:
        """Open an element, to be closed at the end of the ``with``."""
        ...

    def write(self, *elements: Node) -> None:
        """Write whole elements."""
        ...

    def flush(self) -> None:
        """Hand everything that was written to the output."""
        ...


class _Library(Protocol):
    def Element(self, tag: str, /) -> Node: ...  # noqa: N802  lxml's name
    def SubElement(self, parent: Node, tag: str, /) -> Node: ...  # noqa: N802
    def xmlfile(self, output: "Output", /, *, encoding: str) -> AbstractContextManager[XmlDocument]: ...


BRAZIL: Final = timezone(timedelta(hours=-3))  # many programs show the day of a line as it is written
_FOREIGN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Output:
    """A file in memory that holds written octets until they are sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self._parts.append(part)

    def take(self) -> bytes:
        """The octets written since the last call."""
        taken, self._parts = b"".join(self._parts), []
        return taken


@cache
def _load() -> _Library:
    # Only a statement in XML needs its megabyte.
    import lxml.etree  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  ours are above

    return cast(_Library, lxml.etree)  # pyright: ignore[reportUnknownMemberType]


def open_document(output: Output) -> AbstractContextManager[XmlDocument]:
    return _load().xmlfile(output, encoding="UTF-8")


Tree: TypeAlias = "Mapping[str, Content]"
Content: TypeAlias = "str | tuple[str, Mapping[str, str]] | list[Tree] | Tree | None"
"""An element: its text, also with attributes, or the elements in it. A list repeats it, and ``None`` leaves it out."""


async def write_lines(
    document: XmlDocument,
    output: Output,
    parts: AsyncIterable[Sequence[StatementLine]],
    show_line: Callable[[StatementLine, Language], Tree],
    language: Language,
) -> AsyncIterator[bytes]:
    """Write the lines of a statement, and yield each part when it is written."""
    async for lines in parts:
        group = _load().Element("group")
        for line in lines:
            _append(group, show_line(line, language))
        document.write(*group)
        # Sent in parts: the statement may be longer than memory.
        document.flush()
        yield output.take()


def make(tree: Tree) -> Iterator[Node]:
    """Make elements.

    Example:
        >>> output = Output()
        >>> with open_document(output) as document, document.element("a"):
        ...     document.write(*make({"b": [{"c": "d"}, {"e": None}], "f": ("1", {"g": "h"})}))
        >>> output.take()
        b'<a><b><c>d</c></b><b/><f g="h">1</f></a>'
    """
    group = _load().Element("group")
    _append(group, tree)
    return iter(group)


def _append(parent: Node, tree: Tree) -> None:
    for tag, content in tree.items():
        for each in content if isinstance(content, list) else (content,):
            if each is None:
                continue
            element = _load().SubElement(parent, tag)
            if isinstance(each, str):
                element.text = each
            elif isinstance(each, tuple):
                element.text, attributes = each
                for name, value in attributes.items():
                    element.set(name, value)
            else:
                _append(element, each)


def clean(text: str, length_max: int) -> str:
    """Clean another system's text: cut, with U+FFFD for each character that XML 1.0 cannot represent."""
    return _FOREIGN.sub("\ufffd", text[:length_max])


def format_xml_instant(instant: datetime) -> str:
    """Write an instant of any year as ``xs:dateTime``."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
_DECLARATION: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n'
# Max140Text.
_NAME_MAX: Final = 140
_ACCOUNT_TYPES: Final = dict(CHECKING="CACC", SAVINGS="SVGS", SALARY="SLRY", TRANSACTIONAL="TRAN")


async def write_camt053(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    output = Output()
    output.write(_DECLARATION)
    with (
        open_document(output) as document,
        document.element("Document", nsmap={None: _NAMESPACE}),
        document.element("BkToCstmrStmt"),
    ):
        made_at = format_xml_instant(statement.made_at)
        # Sufficiently unique, as the standard requires: two exports need different microseconds.
        message_id = f"{statement.holder_id}-{int(statement.made_at.timestamp() * 1_000_000)}"
        document.write(*make({"GrpHdr": {"MsgId": message_id, "CreDtTm": made_at}}))
        with document.element("Stmt"):
            document.write(*make(_show_head(statement, made_at)))
            async for written in write_lines(document, output, parts, _camt053_entry, statement.language):
                yield written
    yield output.take()


def _show_head(statement: Statement, made_at: str) -> Tree:
    account, extent = statement.account, statement.extent
    initial_at = format_xml_instant(statement.initial_at)
    return {
        "Id": f"{extent.first_number}-{extent.last_number}",
        "CreDtTm": made_at,
        "FrToDt": {"FrDtTm": initial_at, "ToDtTm": format_xml_instant(statement.final_at)},
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
            _show_balance("CLBD", extent.closing_cents, format_xml_instant(statement.closed_at)),
        ],
        "TxsSummry": {"TtlNtries": {"NbOfNtries": str(extent.lines_count)}},
    }


def _camt053_entry(line: StatementLine, language: Language) -> Tree:
    line_id, booked_at = str(line.id), {"DtTm": format_instant(line.created_at)}
    named = None if line.return_id is None else {"Tp": "RETURN_IDENTIFICATION", "Ref": line.return_id}
    references: Tree = {"EndToEndId": line.end_to_end_id or "NOTPROVIDED", "TxId": line.txid, "Prtry": named}
    details: dict[str, Content] = {"Refs": references}
    if line.counterparty is not None:
        other, role = line.counterparty, "Dbtr" if line.direction == "IN" else "Cdtr"
        details["RltdPties"] = {role: {"Pty": _show_party(other.name, other.tax_id)}}
        details["RltdAgts"] = {f"{role}Agt": _show_institution(other.ispb)}
    details["RmtInf"] = {"Ustrd": clean(line.describe(language), 140)}
    # References have room for 35 characters, and an external id may have 255.
    details["AddtlTxInf"] = None if line.external_id is None else clean(line.external_id, 255)
    family, kind = _choose_code(line)
    shown: Tree = {
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


def _show_party(name: str, tax_id: str) -> Tree:
    # A CPF has 11 digits and is a person's; a CNPJ has 14 characters and is a company's.
    kind = "PrvtId" if len(tax_id) == 11 else "OrgId"
    identity: Tree = {"Othr": {"Id": tax_id, "SchmeNm": {"Cd": "TXID"}}}
    return {"Nm": clean(name, _NAME_MAX) if name else None, "Id": {kind: identity}}


def _show_institution(ispb: str) -> Tree:
    return {"FinInstnId": {"ClrSysMmbId": {"MmbId": ispb}}}


def _show_balance(code: str, amount_cents: int, as_of: str) -> Tree:
    # None of our balances is negative.
    amount = _show_amount(amount_cents, is_credit=True)
    return {"Tp": {"CdOrPrtry": {"Cd": code}}, **amount, "Dt": {"DtTm": as_of}}


def _show_amount(amount_cents: int, *, is_credit: bool) -> Tree:
    return {"Amt": (format_reais(amount_cents), {"Ccy": "BRL"}), "CdtDbtInd": "CRDT" if is_credit else "DBIT"}


_DECLARATIONS: Final = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\r\n'
    b'<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" OLDFILEUID="NONE" NEWFILEUID="NONE"?>\r\n'
)
_STATUS: Final = {"CODE": "0", "SEVERITY": "INFO"}


async def write_ofx(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    output = Output()
    output.write(_DECLARATIONS)
    with open_document(output) as document, document.element("OFX"):
        document.write(*make(_show_signon(statement)))
        with document.element("BANKMSGSRSV1"), document.element("STMTTRNRS"):
            # Zero is for a file that answers no request.
            document.write(*make({"TRNUID": "0", "STATUS": _STATUS}))
            with document.element("STMTRS"):
                document.write(*make(_show_account(statement)))
                with document.element("BANKTRANLIST"):
                    period = {"DTSTART": _instant(statement.initial_at), "DTEND": _instant(statement.final_at)}
                    document.write(*make(period))
                    async for written in write_lines(document, output, parts, _ofx_transaction, statement.language):
                        yield written
                document.write(*make(_show_balances(statement)))
    yield output.take()


def _show_signon(statement: Statement) -> Tree:
    account = statement.account
    answer: Tree = {
        "STATUS": _STATUS,
        "DTSERVER": _instant(statement.made_at),
        # OFX names languages by ISO 639-2.
        "LANGUAGE": "POR" if statement.language == "pt" else "ENG",
        "FI": {"ORG": clean(account.bank or account.ispb, 32), "FID": account.ispb},
    }
    return {"SIGNONMSGSRSV1": {"SONRS": answer}}


def _show_account(statement: Statement) -> Tree:
    account = statement.account
    # OFX has neither salary nor transactional accounts.
    kind = "SAVINGS" if account.account_type == "SAVINGS" else "CHECKING"
    number = account.account_number
    return {
        "CURDEF": "BRL",
        "BANKACCTFROM": {"BANKID": account.ispb, "BRANCHID": account.branch, "ACCTID": number, "ACCTTYPE": kind},
    }


def _ofx_transaction(line: StatementLine, language: Language) -> Tree:
    is_in = line.direction == "IN"
    is_fee = line.movement is not None and line.movement.kind == "fee"
    name = line.counterparty and line.counterparty.name
    # Facts without a field are in the memo.
    memo = " ".join(part for part in (line.return_id, line.describe(language)) if part)
    memo += f" | external_id {line.external_id}" if line.external_id else ""
    memo += f" | txid {line.txid}" if line.txid else ""
    shown: Tree = {
        "TRNTYPE": "OTHER" if line.adjustment is not None else "FEE" if is_fee else "CREDIT" if is_in else "DEBIT",
        "DTPOSTED": _instant(line.created_at),
        "TRNAMT": ("" if is_in else "-") + format_reais(line.amount_cents),
        "FITID": str(line.id),
        "REFNUM": line.end_to_end_id,
        "NAME": clean(name, 32) if name else None,
        "MEMO": clean(memo, 255),
    }
    return {"STMTTRN": shown}


def _show_balances(statement: Statement) -> Tree:
    extent = statement.extent
    # OFX has no opening balance; DOLLAR marks the value as money, in the account's currency.
    opening: Tree = {
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
        '20260102000405.006[-3:BRT]'
    """
    try:
        local, zone = instant.astimezone(BRAZIL), "-3:BRT"
    except OverflowError:
        local, zone = instant.astimezone(UTC), "0:GMT"
    return f"{local.year:04}{local:%m%d%H%M%S}.{local.microsecond // 1000:03}[{zone}]"
