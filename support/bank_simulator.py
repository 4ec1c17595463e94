"""A bank that keeps one account and exports statement files, with the habits of real banks.

The month is the truth: the bank's movements, and when each entered or left its records. The records at one instant are
rendered as a file. ``KINDS`` names the habits; each combines with the others.

The simulator follows the public formats (OFX 1.02, camt.053) alone, never the code that reads the files.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Final, Literal
from xml.sax.saxutils import escape

from msgspec import Struct

from pixconnect.features.statements.rules import StatementLine
from pixconnect.platform.base.clock import SAO_PAULO
from support.statement_files import OFX_HEADER

FIRST_ON: Final = date(2026, 7, 1)  # the day of the opening balance
OPENING_CENTS: Final = 10_000

Shown = Literal["all", "in", "out"]
Form = Literal["ofx", "camt.053"]


class Movement(Struct, frozen=True, kw_only=True):
    """One movement of the account, as the bank records it."""

    serial: int
    day: date
    """The bank's booking day."""
    booked_at: datetime | None
    """When it entered the bank's records; later than ``day`` if backdated, ``None`` if it was only announced."""
    struck_at: datetime | None = None
    """When the bank removed it from its records."""
    announced_at: datetime | None = None
    """Since when exports list it as scheduled."""
    settled_at: datetime | None = None
    """When the Pix was made on the network; the bank may book it on a later day."""
    learned_at: datetime | None = None
    """When the service learns of the Pix from the network; ``None`` if only the statement has it."""
    cents: int
    """Negative if it leaves the account."""
    text: str
    name: str = ""
    """The network's id of a Pix, or of a return."""

    @property
    def effect(self) -> tuple[date, int]:
        """The amount and day that the books must have."""
        return self.day, self.cents

    def was_made(self, at: datetime) -> bool:
        return self.booked_at is not None and self.booked_at <= at

    def stands(self, at: datetime) -> bool:
        return self.was_made(at) and (self.struck_at is None or at < self.struck_at)

    def is_scheduled(self, at: datetime) -> bool:
        return self.announced_at is not None and self.announced_at <= at and to_day(at) < self.day


class Month(Struct, frozen=True, kw_only=True):
    """The events on the account."""

    last_on: date
    movements: Sequence[Movement] = ()
    opening_cents: int = OPENING_CENTS

    def list_standing(self, at: datetime) -> list[Movement]:
        return [movement for movement in self.movements if movement.stands(at)]

    def read_balance(self, day: date, at: datetime) -> int:
        """The balance at the end of a day, from the bank's records at an instant."""
        return self.opening_cents + sum(one.cents for one in self.list_standing(at) if one.day <= day)


class Bank(Struct, frozen=True, kw_only=True):
    """How a bank writes statements; the defaults are those of a good bank."""

    number: str = "12345-6"
    """The account's."""
    ids: Literal["stable", "per_export", "by_day", "by_row", "document"] = "stable"
    """``by_day`` numbers the lines of a day, ``by_row`` those of the file; a ``document`` number can occur many times.
    """
    newest_first: bool = False
    names_pix: bool = True
    """Lines of Pix have their end-to-end ids."""
    sums_pix: bool = False
    """One line a day for all Pix received."""
    writes_balances: bool = False
    """Each day ends with its balance as a line with an amount."""
    balance_words: str = "SALDO DO DIA"
    lists_scheduled: bool = False
    spans_scheduled: bool = False
    """The file's period includes the last scheduled day."""
    completes_texts: bool = False
    """Lines of the day of the export lack the second half of their text."""
    tells_opening: bool = True
    """camt.053 always does."""
    tells_closing: Literal["of_span", "of_now", "never"] = "of_span"
    """Some banks write the current balance next to lines of earlier days."""


class Request(Struct, frozen=True, kw_only=True):
    """An export: made at an instant, for a period, filtered or not."""

    at: datetime
    first_on: date
    last_on: date
    shown: Shown = "all"
    form: Form = "ofx"


class Line(Struct, frozen=True, kw_only=True):
    """A line of a file before it is written."""

    key: str  # the content from which a stable id is derived
    day: date
    cents: int
    text: str
    name: str = ""


def to_day(at: datetime) -> date:
    return at.astimezone(SAO_PAULO).date()


def at_hour(day: date, hour: float) -> datetime:
    return datetime.combine(day, time(), SAO_PAULO) + timedelta(hours=hour)


def make_movement(line: StatementLine) -> Movement:
    """A line of a simulated bank's account."""
    cents = line.amount_cents if line.direction == "IN" else -line.amount_cents
    word = "DEVOLVIDO" if line.return_id else "RECEBIDO" if cents > 0 else "ENVIADO"
    is_pix = line.movement is None
    return Movement(
        serial=line.id,
        day=to_day(line.dated_at),
        booked_at=line.created_at,
        cents=cents,
        text=f"PIX {word} JOANA PRADO" if is_pix else line.description or "",
        name=(line.return_id or line.end_to_end_id or "") if is_pix else "",
    )


def export(month: Month, bank: Bank, request: Request) -> bytes:
    """Render the bank's records at the instant of the request as a statement file."""
    lines = list_lines(month, bank, request)
    last_on = request.last_on
    if bank.spans_scheduled:
        last_on = max([last_on, *(line.day for line in lines)])
    as_of = min(request.last_on, to_day(request.at)) if bank.tells_closing == "of_span" else to_day(request.at)
    file = _File(
        at=request.at,
        span=(request.first_on, last_on),
        opening_cents=month.read_balance(request.first_on - timedelta(days=1), request.at),
        closing_cents=month.read_balance(as_of, request.at),
        as_of=as_of,
        lines=[(_make_id(bank, request, lines, row), line) for row, line in enumerate(lines)],
    )
    return _write_ofx(bank, file) if request.form == "ofx" else _write_camt(bank, file)


def list_lines(month: Month, bank: Bank, request: Request) -> list[Line]:
    days = defaultdict[date, list[Movement]](list)
    for movement in month.list_standing(request.at):
        if request.first_on <= movement.day <= request.last_on:
            days[movement.day].append(movement)
    lines: list[Line] = []
    for day in sorted(days):
        lines += _list_day(bank, request, days[day])
        if bank.writes_balances:
            cents = month.read_balance(day, request.at)
            lines.append(Line(key=f"SALDO{day:%Y%m%d}", day=day, cents=cents, text=bank.balance_words))
    if bank.lists_scheduled:
        scheduled = [one for one in month.movements if one.is_scheduled(request.at)]
        # On its own day it gets another id and another text.
        lines += [
            Line(key=f"AG{one.serial:04}", day=one.day, cents=one.cents, text=f"{one.text.split()[0]} AGENDADO")
            for one in sorted(scheduled, key=lambda one: (one.day, one.serial))
        ]
    wanted = [line for line in lines if request.shown == "all" or (line.cents > 0) == (request.shown == "in")]
    return wanted[::-1] if bank.newest_first else wanted


def _list_day(bank: Bank, request: Request, movements: Sequence[Movement]) -> Iterator[Line]:
    summed = [one for one in movements if bank.sums_pix and one.name.startswith("E") and one.cents > 0]
    for movement in sorted(movements, key=lambda one: (one.booked_at or request.at, one.serial)):
        if movement not in summed:
            yield _make_line(bank, request, movement)
        elif movement is summed[-1]:
            cents, day = sum(one.cents for one in summed), movement.day
            yield Line(key=f"RES{day:%Y%m%d}", day=day, cents=cents, text=f"PIX RECEBIDOS QTD {len(summed)}")


def _make_line(bank: Bank, request: Request, movement: Movement) -> Line:
    text = movement.text
    if bank.completes_texts and movement.day == to_day(request.at):
        text = " ".join(text.split()[: (len(text.split()) + 1) // 2])
    return Line(
        key=f"{movement.day:%y%m%d}{movement.serial:04}",
        day=movement.day,
        cents=movement.cents,
        text=text,
        name=movement.name if bank.names_pix else "",
    )


def _make_id(bank: Bank, request: Request, lines: Sequence[Line], row: int) -> str:
    line = lines[row]
    match bank.ids:
        case "stable":
            # Each format writes the text of a line in another place.
            return line.key if request.form == "ofx" else f"C{line.key}"
        case "per_export":
            return f"{request.at:%d%H%M}{request.first_on:%d}{request.last_on:%d}{request.shown[0].upper()}{row:04}"
        case "by_row":
            return str(row + 1)
        case "by_day":
            return f"{line.day:%Y%m%d}{[one.day for one in lines[: row + 1]].count(line.day):03}"
        case "document":
            return f"{sum(map(ord, line.text)) % 100_000:08}"


class _File(Struct, frozen=True, kw_only=True):
    at: datetime
    span: tuple[date, date]
    opening_cents: int
    closing_cents: int
    as_of: date
    lines: Sequence[tuple[str, Line]]


def _reais(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"


def _write_ofx(bank: Bank, file: _File) -> bytes:
    lines = "".join(
        f"<STMTTRN><TRNTYPE>{'DEBIT' if line.cents < 0 else 'CREDIT'}<DTPOSTED>{line.day:%Y%m%d}<TRNAMT>{_reais(line.cents)}"
        f"<FITID>{item_id}<MEMO>{escape(' '.join(filter(None, (line.text, line.name))))}</STMTTRN>\n"
        for item_id, line in file.lines
    )
    first, last = (f"{day:%Y%m%d}" for day in file.span)
    closing = f"<LEDGERBAL><BALAMT>{_reais(file.closing_cents)}<DTASOF>{file.as_of:%Y%m%d}</LEDGERBAL>\n"
    before = f"<NAME>OPENING<DESC>SALDO INICIAL<BALTYPE>DOLLAR<VALUE>{_reais(file.opening_cents)}<DTASOF>{first}"
    opening = f"<BALLIST><BAL>{before}</BAL></BALLIST>\n"
    return f"""{OFX_HEADER}<OFX>
<SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>{file.at:%Y%m%d%H%M%S}[-3:BRT]<LANGUAGE>POR</SONRS></SIGNONMSGSRSV1>
<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS><STMTRS><CURDEF>BRL
<BANKACCTFROM><BANKID>0341<BRANCHID>0001<ACCTID>{bank.number}<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>{first}<DTEND>{last}
{lines}</BANKTRANLIST>
{closing if bank.tells_closing != "never" else ""}{opening if bank.tells_opening else ""}</STMTRS></STMTTRNRS></BANKMSGSRSV1>
</OFX>
""".encode("cp1252")


def _write_camt(bank: Bank, file: _File) -> bytes:
    reference = "NtryRef" if bank.ids in ("by_row", "document") else "AcctSvcrRef"
    entries = "".join(
        f"<Ntry>{f'<NtryRef>{item_id}</NtryRef>' if reference == 'NtryRef' else ''}{_write_amount(line.cents)}<Sts>BOOK</Sts>"
        f"<BookgDt><Dt>{line.day}</Dt></BookgDt>{f'<AcctSvcrRef>{item_id}</AcctSvcrRef>' if reference == 'AcctSvcrRef' else ''}"
        f"<NtryDtls><TxDtls><Refs><EndToEndId>{line.name or 'NOTPROVIDED'}</EndToEndId></Refs></TxDtls></NtryDtls>"
        f"<AddtlNtryInf>{escape(line.text)}</AddtlNtryInf></Ntry>\n"
        for item_id, line in file.lines
    )
    balances = _write_balance("OPBD", file.opening_cents, file.span[0])
    if bank.tells_closing != "never":
        balances += _write_balance("CLBD", file.closing_cents, file.as_of)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>
<GrpHdr><MsgId>1</MsgId><CreDtTm>{file.at.isoformat()}</CreDtTm></GrpHdr>
<Stmt><Id>1</Id><CreDtTm>{file.at.isoformat()}</CreDtTm>
<FrToDt><FrDtTm>{file.span[0]}T00:00:00-03:00</FrDtTm><ToDtTm>{file.span[1]}T23:59:59-03:00</ToDtTm></FrToDt>
<Acct><Id><Othr><Id>{bank.number}</Id></Othr></Id><Ccy>BRL</Ccy></Acct>
{balances}
{entries}</Stmt></BkToCstmrStmt></Document>
""".encode()


def _write_balance(code: str, cents: int, day: date) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{_write_amount(cents)}<Dt><Dt>{day}</Dt></Dt></Bal>"


def _write_amount(cents: int) -> str:
    return f'<Amt Ccy="BRL">{_reais(abs(cents))}</Amt><CdtDbtInd>{"DBIT" if cents < 0 else "CRDT"}</CdtDbtInd>'
