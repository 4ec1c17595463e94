"""Statement files as institutions write them: valid by default, and one argument changes one thing."""

from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import FileSource
from pixconnect.features.institutions.tables import statement_file as file_store
from pixconnect.platform.pool import Pool
from support.records import AT

OFX_HEADER = """OFXHEADER:100
DATA:OFXSGML
VERSION:102
SECURITY:NONE
ENCODING:USASCII
CHARSET:1252
COMPRESSION:NONE
OLDFILEUID:NONE
NEWFILEUID:NONE

"""


def make_ofx_line(
    *, item_id: str = "N1", kind: str = "OTHER", at: str = "20261102", amount: str = "10.50", memo: str = "", name: str = ""
) -> str:
    """One line of money, without the end tags that OFX 1 leaves out."""
    texts = f"<NAME>{name}\n" if name else ""
    return f"<STMTTRN><TRNTYPE>{kind}<DTPOSTED>{at}<TRNAMT>{amount}<FITID>{item_id}{texts}<MEMO>{memo}</STMTTRN>\n"


def make_ofx(
    *lines: str,
    header: str = OFX_HEADER,
    codec: str = "utf-8",
    number: str = "12345-6",
    first: str = "20261101",
    last: str = "20261120",
    closing: str = "1234.56",
    opening: str | None = None,
    made: str = "20261121",
) -> bytes:
    before = f"<BALLIST><BAL><NAME>OPENING<VALUE>{opening}<DTASOF>{first}</BAL></BALLIST>\n" if opening else ""
    return (
        header
        + f"""<OFX>
<SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>{made}</SONRS></SIGNONMSGSRSV1>
<BANKMSGSRSV1>
<STMTTRNRS><TRNUID>1<STMTRS><CURDEF>BRL
<BANKACCTFROM><BANKID>0341<BRANCHID>0001<ACCTID>{number}<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>{first}<DTEND>{last}
{"".join(lines)}</BANKTRANLIST>
<LEDGERBAL><BALAMT>{closing}<DTASOF>{last}</LEDGERBAL>
{before}</STMTRS></STMTTRNRS>
</BANKMSGSRSV1>
</OFX>
"""
    ).encode(codec)


def make_efi_file(
    *records: str, day: str = "2026-11-02", account: str = "517613", count: int | None = None, balances: str = ""
) -> bytes:
    """Efi's conciliation file; ``balances`` are whole lines."""
    header = f"CA;Gerencianet;364;1;{account};João da Silva;2026-11-03;{day};Extrato de Conciliação API Pix;4.0"
    trailer = f"T;{len(records) if count is None else count};1;0;0;0;0;0;0;0;0;0;0"
    return "".join(f"{line}\r\n" for line in (header, *balances.splitlines(), *records, trailer)).encode()


def make_camt(
    *entries: str, account: str = "517613", first: str = "2026-11-01", last: str = "2026-11-02", balances: str = ""
) -> bytes:
    """A camt.053 of a bank; ``balances`` are whole elements."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>
<GrpHdr><MsgId>1</MsgId><CreDtTm>2026-11-03T08:00:00-03:00</CreDtTm></GrpHdr>
<Stmt><Id>1</Id><FrToDt><FrDtTm>{first}T00:00:00-03:00</FrDtTm><ToDtTm>{last}T23:59:59-03:00</ToDtTm></FrToDt>
<Acct><Id><Othr><Id>{account}</Id></Othr></Id><Ccy>BRL</Ccy></Acct>
{balances}
{"".join(entries)}
</Stmt></BkToCstmrStmt></Document>
""".encode()


def make_camt_entry(
    *,
    item_id: str = "N1",
    amount: str = "10.50",
    indicator: str = "CRDT",
    at: str = "2026-11-02",
    status: str = "BOOK",
    details: str = "",
) -> str:
    return (
        f'<Ntry><Amt Ccy="BRL">{amount}</Amt><CdtDbtInd>{indicator}</CdtDbtInd><Sts>{status}</Sts>'
        f"<BookgDt><Dt>{at}</Dt></BookgDt><AcctSvcrRef>{item_id}</AcctSvcrRef>{details}</Ntry>\n"
    )


def make_july_camt(*entries: tuple[str, str, str, str], first: str = "01", last: str = "01", closing: str = "") -> bytes:
    """A camt.053 of July; an entry is its id, amount (below zero for a debit), text and day."""
    written = [
        make_camt_entry(
            item_id=name,
            amount=amount.removeprefix("-"),
            indicator="DBIT" if amount.startswith("-") else "CRDT",
            at=f"2026-07-{day}",
            details=f"<NtryDtls><TxDtls><RmtInf><Ustrd>{text}</Ustrd></RmtInf></TxDtls></NtryDtls>",
        )
        for name, amount, text, day in entries
    ]
    balance = (
        f'<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">{closing}</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
        f"<Dt><Dt>2026-07-{last}</Dt></Dt></Bal>"
    )
    dates = dict(first=f"2026-07-{first}", last=f"2026-07-{last}")
    return make_camt(*written, account="12345-6", balances=balance if closing else "", **dates)


async def confirm_own_files(pool: Pool, institution_id: int, number: str = "517613") -> None:
    """Confirm the files of an institution of the kind Efi, as an operator does after reading the first one."""
    async with pool.acquire() as connection:
        source = FileSource(
            institution_id=institution_id,
            format="efi",
            is_own=True,
            account=StatementAccount(number=number),
            confirmed_at=AT,
            confirmed_by="maria",
        )
        await file_store.SOURCE.insert(connection, source)
