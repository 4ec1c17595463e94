"""ISO 20022 camt.053: a bank's statement in XML; the elements read here are in all versions.

Expat reads it as a stream. A document type is refused, so there are no entities, and depth and texts are bounded.

Source:
    ISO 20022 camt.053.001.02 to .08, message definition reports; external code set BankTransactionCode1Code.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final
from xml.parsers import expat

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind, ItemParts
from pixconnect.features.institutions.statement_files import statement_file as files
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount, merge, read_iban, read_type
from pixconnect.platform.base.clock import SAO_PAULO, to_day

_DEPTH_MAX: Final = 40
_NAME_LENGTH_MAX: Final = 64
_PATH_LENGTH_MAX: Final = 400  # of the names around a text, which are kept with it
_TEXT_LENGTH_MAX: Final = 4096
_PARTS_COUNT_MAX: Final = 400  # maximum of accounts, spans and balances of a statement, each
_TEXTS_COUNT_MAX: Final = 50_000
"""Maximum of elements with a text in one of these, or in one entry, which may be a batch of a thousand Pix."""
_NAMES_COUNT_MAX: Final = 5_000
_ELEMENTS_COUNT_MAX: Final = 2_000_000  # more than the shortest 250,000 entries have; reading them takes about 3 s
_TRANSACTION: Final = "NtryDtls/TxDtls"
_BALANCES: Final = dict(OPBD="opening", PRCD="opening", CLBD="closing")

_LAST_MINUTE: Final = time(23, 59)
_NO_REFERENCES: Final = {"NONREF", "NOTPROVIDED"}
# Elements collected as a whole, by their path below Stmt.
_PARTS: Final = ("Acct", "FrToDt", "Bal", "Ntry")


class _Part(Struct, kw_only=True):
    """One element, as texts by their paths in it; an attribute follows an @."""

    line: int
    texts: list[tuple[str, str]]
    transactions_count: int = 0  # of an entry

    def find(self, *paths: str) -> str | None:
        """Find the first text at the first non-empty path."""
        return next((text for path in paths for path_here, text in self.texts if path_here == path), None)

    def find_all(self, end: str) -> list[str]:
        return [text for path, text in self.texts if path.endswith(end)]

    def need(self, *paths: str, name: str = "") -> str:
        text = self.find(*paths)
        if text is None:
            raise files.InvalidStatement(f"{name or paths[0]}: is missing", self.line)
        return text


class _Reader:
    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._parser.StartDoctypeDeclHandler = self._refuse_document_type
        self._parser.buffer_text = True
        self._path: list[str] = []
        self._text: list[str] = []
        self._text_length = 0
        self._elements_count = 0
        self._part: _Part | None = None
        self._statements: list[files.StatementFile] = []
        self._sent_at: datetime | date | None = None
        self._begin()

    def _begin(self) -> None:
        self._parts: dict[str, list[_Part]] = {name: [] for name in _PARTS}
        self._items = files.ItemList()
        self._notes: list[str] = []
        self._made_at: datetime | date | None = None

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber

    def read(self, content: bytes) -> files.StatementFile:
        try:
            self._parser.Parse(content, True)  # noqa: FBT003  expat's argument
        except expat.ExpatError as error:
            raise files.InvalidStatement(f"it is no well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
        except (ValueError, LookupError) as error:
            if isinstance(error, files.InvalidStatement):
                raise
            raise files.InvalidStatement("its encoding is not known", self._line) from None
        if not self._statements:
            raise files.InvalidStatement("it has no statement (Stmt)")
        return files.join_statements(self._statements)

    def _refuse_document_type(self, *_declared: object) -> None:
        raise files.InvalidStatement("it declares a document type, which no statement needs", self._line)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self._path.append(name)
        self._elements_count += 1
        if self._elements_count > _ELEMENTS_COUNT_MAX:
            raise files.InvalidStatement(f"there are more than {_ELEMENTS_COUNT_MAX} elements", self._line)
        if len(name) > _NAME_LENGTH_MAX:
            raise files.InvalidStatement(f"{name[:20]}...: has more than {_NAME_LENGTH_MAX} characters", self._line)
        if len(self._path) > _DEPTH_MAX:
            raise files.InvalidStatement(f"elements stand more than {_DEPTH_MAX} deep", self._line)
        if len(self._path) == 1 and (name != "Document" or "camt.053" not in tag):
            raise files.InvalidStatement("its root is no Document of camt.053", self._line)
        match self._path[1:]:
            case ["BkToCstmrStmt", "Stmt"]:
                self._begin()
            case ["BkToCstmrStmt", "Stmt", part] if part in _PARTS:
                self._part = _Part(line=self._line, texts=[])
            case _:
                pass
        if self._part is not None and self._path_in_part() == _TRANSACTION:
            self._part.transactions_count += 1
        if self._part is not None and (currency := attributes.get("Ccy")) is not None:
            self._take_text(self._path_in_part() + "@Ccy", currency)
        self._text, self._text_length = [], 0

    def _path_in_part(self) -> str:
        return "/".join(self._path[4:])

    def _add_text(self, text: str) -> None:
        self._text_length += len(text)
        if self._text_length > _TEXT_LENGTH_MAX:
            raise files.InvalidStatement(f"{self._path[-1]}: has more than {_TEXT_LENGTH_MAX} characters", self._line)
        self._text.append(text)

    def _end(self, _tag: str) -> None:
        part, text = self._part, "".join(self._text).strip()
        if part is not None and text:
            self._take_text(self._path_in_part(), text)
        # The statement's own comes after its message's.
        if self._path[2:] == ["GrpHdr", "CreDtTm"]:
            self._sent_at = _parse_instant(text)
        elif self._path[2:] == ["Stmt", "CreDtTm"]:
            self._made_at = _parse_instant(text)
        self._text, self._text_length = [], 0
        if part is not None and len(self._path) == 4:
            name = self._path[-1]
            if name != "Ntry":
                self._parts[name].append(part)
                if len(self._parts[name]) > _PARTS_COUNT_MAX:
                    raise files.InvalidStatement(f"{name}: there are more than {_PARTS_COUNT_MAX}", self._line)
            # Entries not booked are expected, and may never come.
            elif (part.find("Sts/Cd", "Sts") or "BOOK").upper() == "BOOK":
                self._items.add(_make_item(part), part.line)
            self._part = None
        if self._path[1:] == ["BkToCstmrStmt", "Stmt"]:
            self._statements.append(self._conclude())
            files.check_count(self._statements)
        self._path.pop()

    def _take_text(self, path: str, text: str) -> None:
        if self._part is None:
            return
        if len(path) > _PATH_LENGTH_MAX:
            raise files.InvalidStatement(f"elements around {path[-20:]} have names of too many characters", self._line)
        self._part.texts.append((path, text))
        if len(self._part.texts) > _TEXTS_COUNT_MAX:
            raise files.InvalidStatement(f"one element has more than {_TEXTS_COUNT_MAX} texts", self._line)

    def _conclude(self) -> files.StatementFile:
        accounts, spans, items = self._parts["Acct"], self._parts["FrToDt"], _read_days(self._items.items)
        if len(accounts) != 1:
            raise files.InvalidStatement("it needs one account (Acct)")
        (account,) = accounts
        files.check_currency(account.find("Ccy"), "Ccy", account.line)
        balances = self._read_balances()
        stated = (self._find_day(spans, "Fr"), self._find_day(spans, "To"))
        if stated == (None, None) and "closing" in balances:
            stated = (None, balances["closing"].on)
        elif stated[1] is not None and stated[0] != stated[1] and _ends_at_midnight(spans[0]):
            # The end of the day before, unless something is of this day: programs also write a day without a time so.
            days = {balance.on for balance in balances.values()} | {item.day for item in items}
            stated = stated if stated[1] in days else (stated[0], stated[1] - timedelta(days=1))
        first_on, last_on = files.find_days(stated, items)
        opening = balances.get("opening")
        return files.StatementFile(
            format="camt.053",
            account=_read_account(account),
            first_on=first_on,
            last_on=last_on,
            opening=opening and files.StatedBalance(cents=opening.cents, on=first_on - timedelta(days=1)),
            closing=balances.get("closing"),
            items=items,
            made_at=self._made_at or self._sent_at,
            notes=(*self._notes, *files.note_outside((first_on, last_on), items)),
        )

    def _find_day(self, spans: Sequence[_Part], end: str) -> date | None:
        text = spans[0].find(f"{end}DtTm", f"{end}Dt") if spans else None
        return None if text is None else self._read_or_note(spans[0], text, f"{end}Dt")

    def _read_or_note(self, part: _Part, text: str, field: str) -> date | None:
        """Read a balance; an unreadable one counts as missing, as it moves no money."""
        try:
            day, at = _parse_date(text, field, part.line)
            # Midnight and a day's last minute, in whatever zone, are of the bank's own day.
            return at.date() if at is not None and (at.time() == time() or at.time() >= _LAST_MINUTE) else day
        except files.InvalidStatement as error:
            self._notes.append(f"{error}, and is passed over")
            return None

    def _read_balances(self) -> dict[str, files.StatedBalance]:
        found: dict[str, files.StatedBalance] = {}
        for part in self._parts["Bal"]:
            name = _BALANCES.get(part.find("Tp/CdOrPrtry/Cd") or "")
            if name is None:
                continue
            stated = part.find("Dt/DtTm", "Dt/Dt")
            on = None if stated is None else self._read_or_note(part, stated, "Dt")
            if on is None or part.find("Amt") is None:
                self._notes.append(f"line {part.line}: Bal: no {name} balance is read, for its Dt or Amt is missing")
                continue
            balance = files.StatedBalance(cents=_read_cents(part), on=on)
            if found.setdefault(name, balance).cents != balance.cents:
                raise files.InvalidStatement(f"Bal: there are two {name} balances", part.line)
        return found


def _read_days(items: tuple[InstitutionItem, ...]) -> tuple[InstitutionItem, ...]:
    """Date lines that are all at midnight, in whatever zone, by the bank's own day: it writes days without a time."""
    dated = [(item, item.settled_at) for item in items]
    if any(at is None or at.time() != time() for _, at in dated):
        return items
    return tuple(structs.replace(item, day=at.date(), settled_at=None) for item, at in dated if at is not None)


def _read_account(part: _Part) -> StatementAccount:
    def find(*paths: str) -> str:
        return files.clean_text(part.find(*paths) or "")

    servicer = "Svcr/FinInstnId"
    account = StatementAccount(
        bank=find(f"{servicer}/ClrSysMmbId/MmbId", f"{servicer}/BICFI", f"{servicer}/BIC"),
        branch=find("Id/Othr/Issr", "Svcr/BrnchId/Id"),
        number=find("Id/Othr/Id"),
        type=read_type(find("Tp/Cd", "Tp/Prtry")),
    )
    iban = find("Id/IBAN")
    whole = merge([account, *filter(None, [read_iban(iban)]), StatementAccount(number=iban)])
    return whole if whole.number else StatementAccount(number=part.need("Id/Othr/Id"))


def read_camt(content: bytes) -> files.StatementFile:
    """Read the statements of accounts; ``InvalidStatement`` if it is none, or is ambiguous."""
    files.check_content(content)
    return _Reader().read(content)


def _make_item(entry: _Part) -> InstitutionItem | None:
    cents = _read_cents(entry)
    if cents == 0:
        return None
    parts = _find_parts(entry)
    if parts is not None:
        # The details of its transactions belong to one of them each.
        own = [(path, text) for path, text in entry.texts if not path.startswith(_TRANSACTION)]
        entry = _Part(line=entry.line, texts=own)
    # An entry's own reference (NtryRef) is unique in its statement alone.
    reference = entry.find("AcctSvcrRef", "NtryDtls/TxDtls/Refs/AcctSvcrRef")
    is_named = reference is not None and reference.upper() not in _NO_REFERENCES
    item_id = files.check_item_id(reference, "AcctSvcrRef", entry.line) if reference and is_named else ""
    booked_at = entry.find("BookgDt/DtTm", "BookgDt/Dt") or entry.need("ValDt/DtTm", "ValDt/Dt", name="BookgDt")
    day, settled_at = _parse_date(booked_at, "BookgDt", entry.line)
    is_in = cents >= 0
    # The counterparty is the payer of incoming money, and the payee of outgoing.
    parties = f"NtryDtls/TxDtls/RltdPties/{'Dbtr' if is_in else 'Cdtr'}"
    name = entry.find(f"{parties}/Pty/Nm", f"{parties}/Nm")
    texts = [*entry.find_all("/RmtInf/Ustrd"), *entry.find_all("AddtlNtryInf"), *entry.find_all("AddtlTxInf")]
    tax_id = entry.find(*(f"{parties}/{pty}Id/{kind}/Othr/Id" for pty in ("Pty/", "") for kind in ("OrgId", "PrvtId")))
    kind = _find_kind(entry)
    item = InstitutionItem(
        item_id=item_id,
        day=day,
        settled_at=settled_at,
        direction="IN" if is_in else "OUT",
        amount_cents=abs(cents),
        kind=kind if kind != "other" or parts is None or not parts.names else "pix",
        txid=files.clean_text(entry.find("NtryDtls/TxDtls/Refs/TxId") or "") or None,
        tax_id=files.clean_text(tax_id or "") or None,
        counterparty=files.clean_text(name or "") or None,
        text=files.clean_text(" | ".join(texts)),
        parts=parts,
    )
    if parts is not None:
        return item
    # A field decides; texts only without such a field.
    named = files.add_found_names(item, (), (*entry.find_all("/Refs/EndToEndId"), *entry.find_all("/Refs/Prtry/Ref")))
    return files.add_found_names(named, texts, (item_id,))


def _find_parts(entry: _Part) -> ItemParts | None:
    """For an entry of several transactions, find their number as counted or listed, and their network names."""
    counts = [
        int(text) for text in entry.find_all("NtryDtls/Btch/NbOfTxs") if text.isascii() and text.isdigit() and len(text) < 8
    ]
    count = max(sum(counts), entry.transactions_count)
    if count < 2:
        return None
    names = files.find_names(text for path, text in entry.texts if path.startswith(f"{_TRANSACTION}/Refs/"))
    return ItemParts(count=count, names=tuple(names) if len(names) <= _NAMES_COUNT_MAX else ())


def _find_kind(entry: _Part) -> ItemKind:
    codes = (entry.find("BkTxCd/Domn/Fmly/Cd"), entry.find("BkTxCd/Domn/Fmly/SubFmlyCd"))
    match codes:
        case (_, "FEES" | "CHRG" | "COMM"):
            return "fee"
        case ("RRCT" | "IRCT", "RRTN"):
            return "refund"
        case ("RRCT" | "IRCT", _):
            return "pix"
        case _:
            # The bank's words; remittance texts are the payer's, used only without others.
            words = [*entry.find_all("AddtlNtryInf"), *entry.find_all("AddtlTxInf")]
            return files.find_kind(" ".join(words or entry.find_all("/RmtInf/Ustrd")))


def _read_cents(part: _Part) -> int:
    paths = [path for path, _ in part.texts]
    for name in ("Amt", "CdtDbtInd"):
        if paths.count(name) > 1:
            raise files.InvalidStatement(f"{name}: stands more than once", part.line)
    text = part.need("Amt")
    files.check_currency(part.find("Amt@Ccy"), "Amt", part.line)
    cents = files.parse_cents(text, "Amt", part.line)
    if cents == 0:
        return 0
    indicator = part.need("CdtDbtInd")
    if cents < 0 or indicator not in ("CRDT", "DBIT"):
        raise files.InvalidStatement("CdtDbtInd: must be CRDT or DBIT, of an amount without a sign", part.line)
    return cents if indicator == "CRDT" else -cents


def _ends_at_midnight(span: _Part) -> bool:
    try:
        end = datetime.fromisoformat(span.find("ToDtTm") or "")
    except ValueError:
        return False
    here = end if end.tzinfo is None else end.astimezone(SAO_PAULO)
    return time() in (end.time(), here.time())


def _parse_instant(text: str) -> datetime | date | None:
    try:
        return files.check_instant(datetime.fromisoformat(text))
    except ValueError:
        return None


def _parse_date(text: str, field: str, line: int) -> tuple[date, datetime | None]:
    """Parse a date, or an instant; without a zone, and at midnight here, only its day is known."""
    try:
        parsed = datetime.fromisoformat(text if "T" in text and text[10:19] != "T24:00:00" else text[:10])
    except ValueError:
        parsed = None
    if parsed is None or parsed.year not in files.YEARS:
        raise files.InvalidStatement(f"{field}: {text[:40]!r} is no date as XML writes it", line)
    if parsed.tzinfo is None or (parsed.time() == time() and parsed.date() == to_day(parsed)):
        return parsed.date(), None
    return to_day(parsed), parsed
