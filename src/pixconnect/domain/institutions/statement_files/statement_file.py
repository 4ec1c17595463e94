"""What an institution's statement file says, whichever form it has: an account, a span of days, balances, and items.

Files come from people and from other systems, so nothing in one is believed: it is bounded, and what cannot be read for
certain is an error that names its line. Amounts are read into integer cents; a sign, a separator or a day is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.domain.frame import identifiers
from pixconnect.domain.frame.money import AMOUNT_MAX_CENTS
from pixconnect.domain.institutions.institution import InstitutionItem
from pixconnect.domain.money import tax_id as tax_ids
from pixconnect.domain.money.rail import MovementKind

BYTES_MAX: Final = 32 * 1024 * 1024
ITEMS_MAX: Final = 250_000
"""A day of 100,000 received Pix, each with its fee, and what else there is."""
ITEM_ID_LENGTH_MAX: Final = 255
"""As long as OFX lets a ``FITID`` be."""
TEXT_LENGTH_MAX: Final = 255

ItemSource = Literal["ofx", "camt.053", "efi", "api"]
"""A file's form, or the institution's API, which lists lines of whole days."""
ItemKind = MovementKind | Literal["pix", "refund"]


class InvalidStatement(ValueError):  # noqa: N818  named as what it is about
    """A file is no statement that can be read for certain; nothing of it was taken."""

    def __init__(self, rule: str, line: int | None = None) -> None:
        super().__init__(rule if line is None else f"line {line}: {rule}")
        self.rule = rule
        self.line = line
        """Counted from 1; ``None`` where the rule is about the whole file."""


class StatementAccount(Struct, frozen=True, kw_only=True):
    """The account as the file names it; an empty text where it says nothing."""

    bank: str = ""
    """An ISPB, or the code of three digits."""
    branch: str = ""
    number: str = ""


class StatedBalance(Struct, frozen=True, kw_only=True):
    cents: int
    on: date
    """It is the balance at the end of this day in Sao Paulo, as far as the file knew it."""


class StatementFile(Struct, frozen=True, kw_only=True):
    format: ItemSource
    account: StatementAccount
    first_on: date
    last_on: date
    opening: StatedBalance | None = None
    """At the end of the day before ``first_on``."""
    closing: StatedBalance | None = None
    items: tuple[InstitutionItem, ...]
    changed: tuple[InstitutionItem, ...] = ()
    """Items with the id of another one of this file and other contents: which of the two is true is for a person to find."""
    notes: tuple[str, ...] = ()
    """What the reader passed over or cannot prove, each with its place, as sentences for the operator."""


class ItemList:
    """Collects the items of one file: each id once, and not more than a file may have."""

    def __init__(self) -> None:
        self._items: dict[str, InstitutionItem] = {}
        self._changed: dict[InstitutionItem, None] = {}

    def add(self, item: InstitutionItem, line: int) -> None:
        if item.amount_cents == 0:
            return  # some banks write balances as lines; this one moves no money
        first = self._items.setdefault(item.item_id, item)
        if first != item:
            self._changed[item] = None
        if len(self._items) + len(self._changed) > ITEMS_MAX:
            raise InvalidStatement(f"there are more than {ITEMS_MAX} lines of money", line)

    @property
    def items(self) -> tuple[InstitutionItem, ...]:
        return tuple(self._items.values())

    @property
    def changed(self) -> tuple[InstitutionItem, ...]:
        return tuple(self._changed)


def check_size(content: bytes) -> None:
    if len(content) > BYTES_MAX:
        raise InvalidStatement(f"the file has more than {BYTES_MAX // 1024 // 1024} MiB")
    if not content.strip():
        raise InvalidStatement("the file is empty")


# A group of thousands counts only where a separator of decimals follows: 1.234 could be either.
_AMOUNT: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]{1,15}|(?=[.,]))|(?P<points>[0-9]{1,3}(?:\.[0-9]{3})+)(?=,)|(?P<commas>[0-9]{1,3}(?:,[0-9]{3})+)(?=\.))"
    r"(?:[.,](?P<part>[0-9]{1,2})(?P<rest>(?:00+)?))?"
)


def parse_cents(text: str, field: str, line: int) -> int:
    """Read a signed amount in reais, with a point or a comma before its cents.

    Raises:
        InvalidStatement: It is no amount, has parts of a cent, or is more than an amount can be.

    Example:
        >>> parse_cents("-1.234,5", "TRNAMT", 1)
        -123450
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise InvalidStatement(f"{field}: {text[:40]!r} is no amount in reais with at most two decimals", line)
    whole = found["whole"] or found["points"] or found["commas"] or "0"
    cents = int(whole.replace(".", "").replace(",", "")) * 100 + int((found["part"] or "0").ljust(2, "0"))
    if cents > AMOUNT_MAX_CENTS:
        raise InvalidStatement(f"{field}: is more than {AMOUNT_MAX_CENTS} cents", line)
    return -cents if found["sign"] == "-" else cents


def check_item_id(text: str, field: str, line: int) -> str:
    if not text:
        raise InvalidStatement(f"{field}: each line of money needs one", line)
    if len(text) > ITEM_ID_LENGTH_MAX or not text.isprintable():
        raise InvalidStatement(f"{field}: must have at most {ITEM_ID_LENGTH_MAX} printable characters", line)
    return text


_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_text(text: str) -> str:
    """A text of another system in one line, cut, without what no database or terminal bears."""
    return " ".join(_UNPRINTABLE.sub(" ", text[: 4 * TEXT_LENGTH_MAX]).split())[:TEXT_LENGTH_MAX]


_NAME: Final = re.compile(r"(?<![0-9A-Za-z])[ED][0-9A-Z]{8}[0-9]{12}[0-9a-zA-Z]{11}(?![0-9A-Za-z])")
_TAX_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}|[0-9A-Z]{2}\.[0-9A-Z]{3}\.[0-9A-Z]{3}/[0-9A-Z]{4}-[0-9]{2}"
    r"|[0-9]{11}|[0-9A-Z]{12}[0-9]{2})(?![0-9A-Za-z])"
)


def add_found_names(item: InstitutionItem, *texts: str) -> InstitutionItem:
    """Add the names of the network and the tax id that its texts have and its fields do not.

    Of two that differ nobody knows which is meant, so neither is taken.
    """
    words = {word for text in texts for word in _NAME.findall(text)}
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
# Payers and payees write into these texts: what a Pix is about follows the bank's own words, so only the beginning counts.
_PIX_KINDS: Final[tuple[tuple[ItemKind, re.Pattern[str]], ...]] = (
    ("fee", re.compile(r"\W*(TARIFA|TAR|FEE)\b", re.IGNORECASE)),
    ("reversal", re.compile(r"\W*(ESTORNO|EST|REVERSAL)\b", re.IGNORECASE)),
    ("refund", re.compile(r"\W*((PIX\W+)?(DEV\b|DEVOLU|DEVOLVID)|REFUND\b)", re.IGNORECASE)),
)
_OTHER_KINDS: Final[tuple[tuple[ItemKind, re.Pattern[str]], ...]] = (
    ("judicial", re.compile(r"\b(JUDICIAL|BACENJUD|SISBAJUD)", re.IGNORECASE)),
    ("reversal", re.compile(r"\W*(ESTORNO|EST|REVERSAL)\b", re.IGNORECASE)),
    ("fee", re.compile(r"\W*(TARIFA|TAR|FEE)\b", re.IGNORECASE)),
    ("wire", re.compile(r"\W*(TED|DOC)\b", re.IGNORECASE)),
    ("boleto", re.compile(r"\b(BOLETO|T[IÍ]TULO)", re.IGNORECASE)),
)


def find_kind(text: str) -> ItemKind:
    """The kind that a bank's text names, where no field does.

    Example:
        >>> find_kind("TAR PIX RECEBIDO"), find_kind("PIX ENVIADO tarifa de julho")
        ('fee', 'pix')
    """
    is_pix = _PIX.search(text) is not None
    for kind, pattern in _PIX_KINDS if is_pix else _OTHER_KINDS:
        # Two of the others may stand behind the bank's own first word.
        if pattern.search(text) if kind in ("judicial", "boleto") else pattern.match(text):
            return kind
    return "pix" if is_pix else "other"


def note_outside(span: tuple[date, date], items: tuple[InstitutionItem, ...]) -> tuple[str, ...]:
    """A note of lines outside the days that a file says it covers: it may lack other lines of their days."""
    days = sorted({item.day for item in items if not span[0] <= item.day <= span[1]})
    if not days:
        return ()
    rule = f"the file covers {span[0]} to {span[1]}, and has lines of {len(days)} days outside ({days[0]} to {days[-1]})"
    return (f"{rule}: it proves none of those days; read a file that covers them",)


def find_days(told: tuple[date | None, date | None], items: tuple[InstitutionItem, ...]) -> tuple[date, date]:
    """The days that a file speaks of: as it says, else those of its items."""
    days = [item.day for item in items]
    first_on, last_on = told
    if not days and (first_on is None or last_on is None):
        raise InvalidStatement("the file has neither lines of money nor a span of days")
    first_on = min(days) if first_on is None else first_on
    last_on = max(days) if last_on is None else last_on
    if last_on < first_on:
        raise InvalidStatement(f"the file ends on {last_on}, before it begins on {first_on}")
    return first_on, last_on
