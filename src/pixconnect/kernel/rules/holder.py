"""Holders, parties (accounts as the network shows them) and Pix keys, which people give instead of an account.

Source: SPI message catalogue 5.13.1, pacs.008, identifiers of account, branch and participant.

A key is normalised before any other use, so that it has one spelling in the database, in the directory and in every answer.
Case is folded only where all is ASCII: the Kelvin sign lowers to a plain ``k``, and a key that only looks like another must not
become it.

An account's list may report a payment long after it settled, so a removed key is in quarantine until a whole reading has ended
that began 72 hours after the removal. Without one, two operators may release it.

An institution reports each member of a counterparty in full, masked with asterisks, or not at all. The contract's schemas
require all members, so unknown ones have the values of ``UNKNOWN_PARTY``, and masked ones are shown as received. The trigger
``check_payer`` recognizes both by the same marks.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.limit import LIMIT_COLUMNS, Limits
from pixconnect.kernel.rules.tax_id import Address
from pixconnect.platform.base import errors
from pixconnect.platform.outgoing_text import trim_pasted

AccountType = Literal["CHECKING", "SAVINGS", "SALARY", "TRANSACTIONAL"]
KeyType = Literal["CPF", "CNPJ", "PHONE", "EMAIL", "EVP"]


class Party(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account, its owner, and the key by which it was found."""

    # In the order in which callers see them.
    account_number: str
    account_type: AccountType
    bank: str | None = None
    branch: str
    ispb: str
    key: str | None = None
    key_type: KeyType | None = None
    name: str
    tax_id: str
    """CPF or CNPJ, unmasked."""


UNKNOWN_PARTY: Final = Party(
    account_number="0", account_type="TRANSACTIONAL", branch="0", ispb="99999999", name="-", tax_id="00000000000"
)
"""Placeholders for a party that an institution does not report: the contract's schemas require all of these."""


def describe_party(**members: str | None) -> Party:
    """Make a party of the members that are reported; those that are empty or missing are unknown."""
    return structs.replace(UNKNOWN_PARTY, **{member: text for member, text in members.items() if text})


class Holder(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    tax_id: str
    city: str
    branch: str
    account_number: str
    account_type: AccountType
    may_deposit: bool = True
    may_withdraw: bool = True
    may_lend: bool = False  # shown in the balance; nothing else depends on it
    transfer_limit_cents: int | None  # limits are on outgoing transfers; ``None`` is no limit
    day_limit_cents: int | None
    night_limit_cents: int | None
    disabled_at: datetime | None = None
    created_at: datetime
    # The account at an institution that has its money; ``None`` is the installation's own rail.
    institution_id: int | None = None
    # Outgoing transfers above this wait for an operator's approval; ``None`` is none.
    approve_above_cents: int | None = None
    approve_new_payees: bool = False  # also the first outgoing transfer to each payee
    # With state and postal code, or none of the three; without them the holder cannot create charges with a due date.
    street: str | None = None
    state: str | None = None
    postal_code: str | None = None
    night_begins_late: bool = False  # whether the night limit begins at the later of the two permitted hours
    family_id: int | None = None  # the first of the holders that succeeded each other; ``None`` without a succession
    successor_id: int | None = None  # the newest of them, which has the clients, keys and webhooks of all

    def check_not_succeeded(self) -> None:
        """Raise ``BadRequest`` for a holder whose clients, keys and webhooks belong to its successor."""
        if self.successor_id is not None:
            raise errors.BadRequest(
                f"holder_id: holder {self.id} was succeeded, and starts nothing: name holder {self.successor_id}"
            )

    @property
    def limits(self) -> Limits:
        return Limits(*[getattr(self, column) for column in LIMIT_COLUMNS])

    def with_limits(self, limits: Limits) -> "Holder":
        return structs.replace(self, **dict(zip(LIMIT_COLUMNS, structs.astuple(limits), strict=True)))

    @property
    def address(self) -> Address | None:
        if self.street is None or self.state is None or self.postal_code is None:
            return None
        return Address(street=self.street, city=self.city, state=self.state, postal_code=self.postal_code)


BRANCH: Final = re.compile(r"[0-9]{1,4}")
_ACCOUNT_NUMBER: Final = re.compile(r"[0-9A-Z]{1,20}")
ACCOUNT_DIGITS: Final = re.compile(r"[0-9]{1,20}")  # the form in institutions' own interfaces
ISPB: Final = re.compile(r"[0-9A-Z]{8}")


def check_account(branch: str, account_number: str, ispb: str) -> None:
    """Refuse an account that no institution could have; the message names the first wrong field."""
    if not BRANCH.fullmatch(branch):
        raise errors.InvalidAccount("branch: must be 1 to 4 digits")
    if not _ACCOUNT_NUMBER.fullmatch(account_number):
        raise errors.InvalidAccount("account_number: must be 1 to 20 digits or capital letters, without marks")
    if not ISPB.fullmatch(ispb):
        raise errors.InvalidAccount("ispb: must be 8 digits or capital letters")


KEY_LENGTH_MAX: Final = 77

SENT_LENGTH_MAX: Final = 120
"""Maximum length of a key as people write it, with punctuation and blanks; longer texts are refused unread."""

_CACHED_MAX: Final = 4096

_PHONE_MARKS: Final = str.maketrans("", "", " .-()")
_PHONE: Final = re.compile(r"\+[1-9][0-9]{1,14}")
# We do not check the UUID's version: the directory's own example has none.
_EVP: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL: Final = re.compile(rf"[a-z0-9.!#$'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")


class PixKey(Struct, frozen=True, kw_only=True):
    key: str  # normalised: no punctuation, e-mail and EVP in lower case, CNPJ in capitals
    key_type: KeyType


def parse_pix_key(text: str, key_type: KeyType | None = None) -> PixKey:
    """Normalise a key, without the blanks around it, and check its form; an ``InvalidPixKey`` does not repeat the key.

    Args:
        key_type: ``None`` derives it from the form: EVP, then ``@``, then a leading ``+``, then CPF, then CNPJ.

    Source: DICT API 2.12.1, table of key types.
    """
    if len(text) > SENT_LENGTH_MAX:
        raise errors.InvalidPixKey(f"key: is longer than any Pix key: at most {KEY_LENGTH_MAX} characters without marks")
    return _parse(text, key_type)


def as_kept(text: str) -> str:
    """Normalise a key pasted with punctuation or in capitals; any other text stays as it is."""
    try:
        return parse_pix_key(text).key
    except errors.InvalidPixKey:
        return text


@lru_cache(_CACHED_MAX)
def _parse(sent: str, key_type: KeyType | None) -> PixKey:
    text = trim_pasted(sent)
    found = key_type or _type_of(text)
    tidy, is_form = _FORMS[found]
    key = tidy(text)
    if not text.isascii() or not is_form(key) or len(key) > KEY_LENGTH_MAX:
        # Derived from nothing in its form, so its rule would mislead.
        is_unlike_any = key_type is None and found == "CNPJ"
        rule = _RULE_OF_ANY if is_unlike_any else f"is no {found}: {_RULES[found]}"
        raise errors.InvalidPixKey(f"key: {rule}")
    return PixKey(key=key, key_type=found)


def _type_of(text: str) -> KeyType:
    if _EVP.fullmatch(text.lower()):
        return "EVP"
    if "@" in text:
        return "EMAIL"
    if text.startswith("+"):
        return "PHONE"
    # Both may be written without marks; 14 characters are never a CPF.
    return "CPF" if tax_id.is_cpf(tax_id.unmask_tax_id(text)) else "CNPJ"


# How a key is normalised, and whether it has its form then.
_FORMS: Final[Mapping[KeyType, tuple[Callable[[str], str], Callable[[str], object]]]] = {
    "CPF": (tax_id.unmask_tax_id, tax_id.is_cpf),
    "CNPJ": (tax_id.unmask_tax_id, tax_id.is_cnpj),
    "PHONE": (lambda text: text.translate(_PHONE_MARKS), _PHONE.fullmatch),
    "EMAIL": (str.lower, _EMAIL.fullmatch),
    "EVP": (str.lower, _EVP.fullmatch),
}
_RULES: Final[Mapping[KeyType, str]] = {
    "CPF": "11 digits with right check digits",
    "CNPJ": "14 characters with right check digits",
    "PHONE": "+ and 2 to 15 digits, such as +5511987654321",
    "EMAIL": "an address such as ana@shop.example, of at most 77 characters",
    "EVP": "a UUID with its hyphens",
}
_RULE_OF_ANY: Final = (
    "is no Pix key: must be an EVP, an e-mail address, a phone number that begins with + and the country's code, "
    "or a CPF or CNPJ with right check digits"
)


QUARANTINE: Final = timedelta(hours=72)
"""The span of the widest reading of new payments (``features/institutions/rules/sweep.py``)."""


class KeyHolding(Struct, frozen=True, kw_only=True):
    """The period in which a holder had a key."""

    member_id: int | None  # the holder, or the one of its family that is on the account; ``None`` if none is
    given_at: datetime
    removed_at: datetime | None  # ``None`` while the holder has it


class Quarantine(Struct, frozen=True, kw_only=True):
    """Why a removed key cannot be registered for another holder yet."""

    former_id: int
    removed_at: datetime
    left_s: float  # seconds until no request that looked the key up before its removal is still under way
    has_open: bool  # payments that the rail accepted for the former holder have not settled
    unread: list[str]  # the former holder's accounts without a late enough reading, or a release by two operators


def find_holder_at(holdings: Sequence[KeyHolding], at: datetime) -> tuple[int | None, bool]:
    """Find the holder that a key on an account led to when a payment settled, and whether several are possible.

    Args:
        holdings: All of the key, in their order.
    """
    for held in holdings:
        if held.given_at <= at and (held.removed_at is None or at <= held.removed_at):
            # Its holder may be on another account, and an earlier one on this.
            return held.member_id, held.member_id is None and any(other.member_id is not None for other in holdings)
    if not holdings or holdings[-1].removed_at is not None:
        return None, False
    present = holdings[-1].member_id
    # It settled before the present holder had the key, and another one had it once.
    is_doubtful = any(held.member_id != present for held in holdings)
    return (None if is_doubtful else present), is_doubtful


def check_quarantine(quarantine: Quarantine | None) -> None:
    """Refuse to register a key while payments to its former holder may still come in."""
    if quarantine is None:
        return
    if quarantine.left_s > 0:
        raise errors.InvalidPixKey(
            f"key: led to another holder until a moment ago; it can be given to this one in {quarantine.left_s:.0f} s"
        )
    if quarantine.has_open:
        raise errors.InvalidPixKey(
            "key: led to another holder, and the rail has not settled all payments to that one yet; look at `find --unresolved`"
        )
    if quarantine.unread:
        raise errors.InvalidPixKey(
            f"key: led to holder {quarantine.former_id} on the account {', '.join(quarantine.unread)}, and is free once a "
            f"whole reading has ended there that began after {(quarantine.removed_at + QUARANTINE).isoformat()}; if the "
            "account can no longer be read, two operators release it: `pixconnect institution release`"
        )


Certainty = Literal["known", "masked", "unknown"]

_STAR: Final = "*"
_ORDER: Final[tuple[Certainty, ...]] = ("unknown", "masked", "known")
_TOLD: Final = ("account_number", "branch", "ispb", "name", "tax_id")  # the members of a payer that an institution may report


def judge_member(party: Party, member: str) -> Certainty:
    """Return how well a member of a reported party is known."""
    text = getattr(party, member)
    if text is None or text == getattr(UNKNOWN_PARTY, member):
        return "unknown"
    return "masked" if _STAR in text else "known"


def complete_party(known: Party, reported: Party) -> Party:
    """Fill in members that were known less well; an equal party if there are none."""
    better = {
        member: getattr(reported, member)
        for member in _TOLD
        if _ORDER.index(judge_member(reported, member)) > _ORDER.index(judge_member(known, member))
    }
    return structs.replace(known, **better)


def compare_parties(known: Party, reported: Party) -> dict[str, tuple[object, object]]:
    """Return members whose known and reported values contradict each other; unknown ones contradict nothing."""
    return {
        f"payer's {member}": (getattr(known, member), getattr(reported, member))
        for member in _TOLD
        if "unknown" not in (judge_member(known, member), judge_member(reported, member))
        and not _may_be_same(member, getattr(known, member), getattr(reported, member))
    }


def _may_be_same(member: str, known: str, reported: str) -> bool:
    """Whether two texts may be one: lists of one institution differ in points, spaces, and leading zeros."""
    known, reported = (_simplify(member, text) for text in (known, reported))
    if _STAR not in known + reported:
        return known == reported
    # The length of a mask reveals nothing about the hidden text.
    return len(known) != len(reported) or all(
        one == other or _STAR in (one, other) for one, other in zip(known, reported, strict=True)
    )


def _simplify(member: str, text: str) -> str:
    if member == "name":
        return " ".join(text.casefold().split())
    bare = "".join(letter for letter in text.upper() if letter.isalnum() or letter == _STAR)
    return bare.lstrip("0") if member in {"account_number", "branch"} else bare
