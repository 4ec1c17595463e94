"""The contents of an institution's statement file in any format: an account, a span of days, balances, and items.

Files come from people and from other systems, so nothing in one is trusted: it is bounded, and anything ambiguous is an error
that names its line. Amounts are read into integer cents; a sign, a separator or a day is never guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from itertools import pairwise
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind, ItemSource
from pixconnect.features.institutions.rules.special_line import sum_stated_changes
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount, find_difference
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules import tax_id as tax_ids
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.platform.base.clock import SAO_PAULO, to_day

BYTES_MAX: Final = 32 * 1024 * 1024
ITEMS_MAX: Final = 250_000  # a day of 100,000 received Pix, each with its fee, and other lines
ITEM_ID_LENGTH_MAX: Final = 255  # the maximum length of an OFX ``FITID``
STATEMENTS_MAX: Final = 400
TEXT_LENGTH_MAX: Final = 255


class InvalidStatement(ValueError):  # noqa: N818  named by its subject
    """A file is no unambiguous statement; nothing of it was recorded."""

    def __init__(self, rule: str, line: int | None = None) -> None:
        super().__init__(rule if line is None else f"line {line}: {rule}")
        self.rule = rule
        self.line = line  # counted from 1; ``None`` if the rule is about the whole file


class StatedBalance(Struct, frozen=True, kw_only=True):
    cents: int
    on: date  # the balance is of the end of this day in Sao Paulo, as far as the file knew it


class StatementFile(Struct, frozen=True, kw_only=True):
    format: ItemSource
    account: StatementAccount
    first_on: date
    last_on: date
    opening: StatedBalance | None = None  # at the end of the day before ``first_on``
    may_begin_later: bool = False
    """That balance is dated ``first_on``: by lines of that day it is of the day's beginning, or they are late ones."""
    closing: StatedBalance | None = None
    items: tuple[InstitutionItem, ...]
    """All lines with an amount, in the file's order; an id may occur more than once (``judging.judge_lines``)."""
    has_investments: bool = False  # its balances include the account's investments
    perhaps_texts: frozenset[InstitutionItem] = frozenset()
    """Those that a payer may have written into another one's text, or whose currency a payer may have written."""
    made_at: datetime | date | None = None  # when the institution made the file, if given, perhaps without a time
    notes: tuple[str, ...] = ()  # skipped or unproved parts, each with its place, as sentences for the operator
    others: tuple[StatementFile, ...] = ()  # further statements of the file, of other accounts or of other days

    def date(self, read_at: datetime) -> tuple[datetime, date]:
        """Return the file's own instant, and the last day whose movements it can list.

        Args:
            read_at: When the file was first read. Used if the file has no instant, or an impossible one.
        """
        today, closing, made_at = to_day(read_at), self.closing, self.made_at
        if isinstance(made_at, datetime):
            if made_at <= read_at and self.first_on <= to_day(made_at):
                return made_at, to_day(made_at)
        elif made_at is not None and self.first_on <= made_at:
            today = min(today, made_at)
        is_dated = not isinstance(made_at, datetime) and closing is not None and self.first_on <= closing.on
        return read_at, min(today, closing.on) if closing is not None and is_dated else today


class RecordedFile(Struct, frozen=True, kw_only=True):
    institution_id: int
    digest: bytes  # SHA-256 of it
    name: str  # as named by the operator's machine or the institution
    format: ItemSource
    is_own: bool  # the institution wrote it, and the worker fetched it
    first_on: date
    last_on: date
    items_count: int
    same_ids_count: int = 0  # known lines that were repeated with the same id
    other_ids_count: int = 0  # lines with another id than before, and ids that two lines share
    recorded_at: datetime


class FileSource(Struct, frozen=True, kw_only=True):
    """A form of an account's statement files, whose first file an operator has confirmed."""

    institution_id: int
    format: ItemSource
    is_own: bool  # the institution writes such files, and the worker fetches them; otherwise operators bring them
    account: StatementAccount  # as the first file names it
    confirmed_at: datetime
    confirmed_by: str


def is_whole(file: StatementFile, opening_cents: int | None) -> bool:
    """Whether a file's lines turn the balance before it, if necessary the given one, into its closing balance."""
    opening_cents = file.opening.cents if file.opening is not None else opening_cents
    if file.closing is None or opening_cents is None:
        return False
    items = [item for item in file.items if item.day <= file.closing.on]
    moved = sum_stated_changes(items, has_investments=file.has_investments)
    return moved is not None and opening_cents + moved == file.closing.cents


def check_count(statements: Sequence[StatementFile]) -> None:
    if len(statements) > STATEMENTS_MAX:
        raise InvalidStatement(f"there are more than {STATEMENTS_MAX} statements")


def join_statements(statements: Sequence[StatementFile]) -> StatementFile:
    """Join the statements of one file: the first, with the others in it."""
    check_count(statements)
    return structs.replace(statements[0], others=tuple(statements[1:]))


def choose_statements(file: StatementFile, wanted: StatementAccount, name: str) -> list[StatementFile]:
    """Choose the statements of the wanted account, in the order of their days.

    Raises:
        InvalidStatement: There is none, more than one account may be meant, or two statements are of the same days.
    """
    every = [structs.replace(file, others=()), *file.others]
    chosen = sorted((one for one in every if find_difference(one.account, wanted, name) is None), key=lambda one: one.first_on)
    accounts = list(dict.fromkeys(one.account for one in chosen))
    if len(accounts) > 1:
        listed = "; ".join(map(str, accounts))
        rule = f"it has statements of {len(accounts)} accounts that may be {name}: {listed}. Set account in the file of"
        raise InvalidStatement(f"{rule} {name}, and branch or account_type under [options], or export one account")
    if not chosen:
        listed = "; ".join(map(str, dict.fromkeys(one.account for one in every)))
        found = f" (the file has {listed})" if file.others else ""
        raise InvalidStatement(f"{find_difference(file.account, wanted, name)}{found}")
    for one, after in pairwise(chosen):
        if after.first_on <= one.last_on:
            days = f"{after.first_on} to {min(one.last_on, after.last_on)}"
            raise InvalidStatement(f"it has two statements of {one.account} that both cover {days}: export them apart")
    return chosen


def find_final_balance(file: StatementFile, as_of: datetime) -> StatedBalance | None:
    """Find the closing balance, unless its day had not ended when the file was made."""
    return file.closing if file.closing is not None and file.closing.on < to_day(as_of) else None


class ItemList:
    def __init__(self) -> None:
        self._items: list[InstitutionItem] = []
        self._unnamed: Counter[InstitutionItem] = Counter()
        self._lines_count = 0

    def add(self, item: InstitutionItem | None, line: int) -> None:
        """Add a line; ``None`` moves no money, such as a balance that a bank writes among the lines.

        A line without an id of the institution's gets one of its contents, and each of several equal ones its own: a later file
        that has the same lines of a day gives them the same ids.
        """
        self._lines_count += 1
        if self._lines_count > ITEMS_MAX:
            raise InvalidStatement(f"there are more than {ITEMS_MAX} lines", line)
        if item is None:
            return
        if not item.item_id:
            self._unnamed[item] += 1
            digest = hashlib.sha256(repr(item).encode("utf-8", "surrogatepass")).hexdigest()[:24]
            item = structs.replace(item, item_id=f"{item.day:%Y%m%d}-{digest}-{self._unnamed[item]}")
        self._items.append(item)

    @property
    def items(self) -> tuple[InstitutionItem, ...]:
        return tuple(self._items)


def check_content(content: bytes) -> None:
    """Refuse contents that are too long, or neither single-byte text nor UTF-8."""
    if len(content) > BYTES_MAX:
        raise InvalidStatement(f"the file has more than {BYTES_MAX // 1024 // 1024} MiB")
    if not content.strip():
        raise InvalidStatement("the file is empty")
    nul_at = content.find(b"\0")
    # For ASCII letters, as in a header, every other byte of UTF-16 is a NUL.
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or (nul_at in (0, 1) and content[nul_at:16:2].strip(b"\0") == b""):
        raise InvalidStatement("it is written in UTF-16; save it as UTF-8 or Windows-1252")
    if nul_at >= 0:
        line = content[:nul_at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
        raise InvalidStatement("there is a NUL (a byte of zero) in it: the file is damaged; export it again", line)


def split_lines(text: str) -> list[tuple[int, str]]:
    """Split a file of one record per line, numbering the lines and dropping blank ones and Ctrl-Z."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x1a", " ")
    if text.count("\n") > 2 * ITEMS_MAX:
        raise InvalidStatement(f"there are more than {2 * ITEMS_MAX} lines")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidStatement("the file is empty")
    return lines


# A group of thousands counts only before a separator of decimals: 1.234 and 1.500 could be either.
_AMOUNT: Final = re.compile(
    r"(?P<sign>[+-]?)\s*(?:(?:R\$|BRL)\s*(?P<inner>[+-]?)\s*)?"
    r"(?:(?P<whole>[0-9]{1,15}|(?=[.,]))|(?P<points>[0-9]{1,3}(?:\.[0-9]{3})+)(?=,)|(?P<commas>[0-9]{1,3}(?:,[0-9]{3})+)(?=\.))"
    r"(?:[.,](?P<part>[0-9](?![0-9])|[0-9]{2}(?:00+)?))?(?P<end>-|\s*[CD])?"
)


def parse_cents(text: str, field: str, line: int) -> int:
    """Read a signed amount in reais, with a point or a comma before its cents; a ``D`` or a minus behind it is a sign too.

    Raises:
        InvalidStatement: It is no amount, has fractions of a cent, or exceeds the maximum of an amount.

    Example:
        >>> parse_cents("-1.234,5", "TRNAMT", 1), parse_cents("R$ 300,00 D", "BALAMT", 1)
        (-123450, -30000)
    """
    found = _AMOUNT.fullmatch(text)
    signs = [] if found is None else [sign.strip() for sign in found.group("sign", "inner", "end") if sign]
    if found is None or len(signs) > 1:
        raise InvalidStatement(f"{field}: {text[:40]!r} is no amount in reais with at most two decimals", line)
    whole = found["whole"] or found["points"] or found["commas"] or "0"
    cents = int(whole.replace(".", "").replace(",", "")) * 100 + int((found["part"] or "0").ljust(2, "0")[:2])
    if cents > AMOUNT_MAX_CENTS:
        raise InvalidStatement(f"{field}: is more than {AMOUNT_MAX_CENTS} cents", line)
    return -cents if signs in (["-"], ["D"]) else cents


def check_currency(code: str | None, field: str, line: int) -> None:
    """Refuse currencies other than the real, which some banks write as its number, its sign or a former code (BRC)."""
    if code and re.fullmatch(r"BR[A-Z]|R\$|REAL|REAIS|986|790", code.strip(), re.IGNORECASE) is None:
        raise InvalidStatement(f"{field}: the account is in {code[:10]!r}, and not in BRL", line)


def check_item_id(text: str, field: str, line: int) -> str:
    if not text:
        raise InvalidStatement(f"{field}: each line of money needs one", line)
    if len(text) > ITEM_ID_LENGTH_MAX or not text.isprintable():
        raise InvalidStatement(f"{field}: must have at most {ITEM_ID_LENGTH_MAX} printable characters", line)
    return text


YEARS: Final = range(1990, 2100)  # programs write 0001, 1900 or 9999 if they have no date


def check_instant(stated: datetime | None) -> datetime | date | None:
    """Read when a file was made, in Brazil if no zone is given; midnight is how programs write a day without a time."""
    if stated is None or stated.year not in YEARS:
        return None
    return stated.date() if stated.time() == time() else stated.replace(tzinfo=stated.tzinfo or SAO_PAULO)


_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Clean another system's text: one line, cut, without characters that PostgreSQL or a terminal rejects."""
    return " ".join(_UNPRINTABLE.sub(" ", text[: 4 * TEXT_LENGTH_MAX]).split())[:TEXT_LENGTH_MAX]


_NAME: Final = re.compile(r"(?<![0-9A-Za-z])[ED][0-9A-Z]{8}[0-9]{12}[0-9a-zA-Z]{11}(?![0-9A-Za-z])")
_TAX_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}|[0-9A-Z]{2}\.[0-9A-Z]{3}\.[0-9A-Z]{3}/[0-9A-Z]{4}-[0-9]{2}"
    r"|[0-9]{11}|[0-9A-Z]{12}[0-9]{2})(?![0-9A-Za-z])"
)


def find_names(texts: Iterable[str]) -> Sequence[str]:
    """Find the end-to-end ids and ids of returns in some texts, each once, in order."""
    words = dict.fromkeys(word for text in texts for word in _NAME.findall(text))
    return [word for word in words if identifiers.is_end_to_end_id(word) or identifiers.is_return_id(word)]


def add_found_names(item: InstitutionItem, texts: Sequence[str], ids: Sequence[str] = ()) -> InstitutionItem:
    """Add the network names and the tax id found in its texts and missing in its fields.

    Ids are searched for network names alone: one of 100 numbers of 11 digits passes for a CPF.

    Two different ones are ambiguous, so neither is taken.
    """
    words = find_names((*texts, *ids))
    written = {tax_ids.unmask_tax_id(word) for text in texts for word in _TAX_ID.findall(text)}
    return structs.replace(
        item,
        end_to_end_id=item.end_to_end_id or _only(filter(identifiers.is_end_to_end_id, words)),
        return_id=item.return_id or _only(filter(identifiers.is_return_id, words)),
        tax_id=item.tax_id or _only(word for word in written if tax_ids.is_cpf(word) or tax_ids.is_cnpj(word)),
    )


def _only(found: Iterable[str]) -> str | None:
    words = list(found)
    return words[0] if len(words) == 1 else None


_PIX: Final = re.compile(r"\bPIX\b", re.IGNORECASE)
# Payers write about costs too: such words count only before the word PIX or a network name.
_FEE: Final = re.compile(
    r"\W*((DEB\w*\W+(DE\W+)?)?(TARIFAS?|TAR|FEE)\b|(TAXAS?|TX|COMISS\w+|CUSTOS?)\W+(\w+\W+)?(PIX\b|E[0-9]{16}))", re.IGNORECASE
)
# Payers and payees write into these texts: their words follow the bank's own, so only the beginning counts.
_PIX_KINDS: Final[tuple[tuple[ItemKind, re.Pattern[str]], ...]] = (
    ("fee", _FEE),
    ("reversal", re.compile(r"\W*(ESTORNO|EST|REVERSAL)\b", re.IGNORECASE)),
    ("refund", re.compile(r"\W*((PIX\W+)?(DEV\b|DEVOLU|DEVOLVID)|REFUND\b)", re.IGNORECASE)),
)
# Two of these may follow the bank's own first words.
_OTHER_KINDS: Final[tuple[tuple[ItemKind, re.Pattern[str]], ...]] = (
    ("fee", _FEE),
    ("judicial", re.compile(r"(?:\W*+\w++){0,3}?\W*+(JUDICIAL|BACENJUD|SISBAJUD)", re.IGNORECASE)),
    ("judicial", re.compile(r"(?:\W*+\w++)?\W*+(?:DES)?BLOQ(?:\w*+\W++){1,5}?JUDICIAL", re.IGNORECASE)),
    ("reversal", re.compile(r"\W*(ESTORNO|EST|REVERSAL)\b", re.IGNORECASE)),
    ("wire", re.compile(r"\W*(TED|DOC)\b", re.IGNORECASE)),
    ("boleto", re.compile(r"(?:\W*+\w++){0,3}?\W*+(BOLETO|T[IÍ]TULO)", re.IGNORECASE)),
)


def find_kind(text: str) -> ItemKind:
    """Find the kind that a bank's text names, if no field does.

    Example:
        >>> find_kind("TAR PIX RECEBIDO"), find_kind("PIX ENVIADO tarifa de julho")
        ('fee', 'pix')
    """
    is_pix = _PIX.search(text) is not None
    for kind, pattern in _PIX_KINDS if is_pix else _OTHER_KINDS:
        if pattern.match(text):
            return kind
    return "pix" if is_pix else "other"


def note_outside(span: tuple[date, date], items: tuple[InstitutionItem, ...]) -> tuple[str, ...]:
    """Note lines outside the days that a file claims to cover: it may lack other lines of their days."""
    days = sorted({item.day for item in items if not span[0] <= item.day <= span[1]})
    if not days:
        return ()
    rule = f"the file covers {span[0]} to {span[1]}, and has lines of {len(days)} days outside ({days[0]} to {days[-1]})"
    return (f"{rule}: it proves none of those days; read a file that covers them",)


def note_ongoing(file: StatementFile, as_of: datetime) -> tuple[str, ...]:
    """Note if the file has a balance of a day that was not over."""
    closing = file.closing
    if closing is None or find_final_balance(file, as_of) is not None:
        return ()
    made_at = f"{as_of.astimezone(SAO_PAULO):%Y-%m-%d %H:%M}"
    rule = f"the file is of {made_at}, so its balance of {closing.on} does not close that day"
    return (f"{rule}: read a file that is made when the day is over",)


def find_days(stated: tuple[date | None, date | None], items: tuple[InstitutionItem, ...]) -> tuple[date, date]:
    """Find the days that a file covers: its own statement of them, else those of its items."""
    days = [item.day for item in items]
    if not days and None in stated:
        raise InvalidStatement("the file has neither lines of money nor a span of days")
    first_on, last_on = stated[0] or min(days), stated[1] or max(days)
    if last_on < first_on:
        raise InvalidStatement(f"the file ends on {last_on}, before it begins on {first_on}")
    return first_on, last_on
