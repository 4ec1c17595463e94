"""The account of a statement file: the parts of its name, and the comparison of two spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_TYPES: Final = dict(CHECKING="checking", CACC="checking", TRAN="checking", SAVINGS="savings", SVGS="savings")
_BRANCH_LENGTH: Final = 4
_FIELDS: Final = dict(bank="bank", branch="branch", number="number", type="account type", agreement="agreement")
_SETTINGS: Final = dict(bank="bank", branch="branch", type="account_type", agreement="agreement")


class StatementAccount(Struct, frozen=True, kw_only=True):
    """The account as a file names it; a missing part is an empty text."""

    bank: str = ""  # its ISPB, its code of three digits (COMPE) or its BIC; several are joined by a slash
    branch: str = ""
    number: str = ""  # with its check digit
    type: str = ""  # ``checking``, ``savings``, or as the file writes it
    agreement: str = ""  # the bank's number of the customer's contract (CNAB)

    def __str__(self) -> str:
        return ", ".join(f"{title} {getattr(self, name)}" for name, title in _FIELDS.items() if getattr(self, name))


def read_type(text: str) -> str:
    word = text.strip().upper()
    return _TYPES.get(word, word.lower())


def read_iban(iban: str) -> StatementAccount | None:
    """Read a Brazilian IBAN: BR, two check digits, ISPB, branch, number with its digit, type, number of the owner.

    Example:
        >>> str(read_iban("BR18 0036 0305 0000 1000 9795 493C 1"))
        'bank 00360305, branch 00001, number 9795493, account type checking'
    """
    plain = _plain(iban)
    if len(plain) != 29 or not plain.startswith("BR") or not plain[2:27].isdigit():
        return None
    return StatementAccount(
        bank=plain[4:12],
        branch=plain[12:17],
        number=plain[17:27].lstrip("0"),
        type={"C": "checking", "P": "savings"}.get(plain[27], ""),
    )


def merge(accounts: Sequence[StatementAccount]) -> StatementAccount:
    """Take each part from the first account that has it."""
    parts = {name: next((text for one in accounts if (text := getattr(one, name))), "") for name in _FIELDS}
    return StatementAccount(**parts)


def find_difference(stated: StatementAccount, wanted: StatementAccount, name: str) -> str | None:
    """Find why a file's account is not the wanted one of this name; ``None`` if they agree in all parts that both have."""
    for part, title in _FIELDS.items():
        theirs, ours = getattr(stated, part), getattr(wanted, part)
        if not theirs or not ours or _is_same(part, stated, wanted):
            continue
        lacks = ""
        if part == "number" and _plain(ours)[:-1].lstrip("0") in _numbers(stated, wanted):
            lacks = f" (the file lacks the check digit {_plain(ours)[-1]})"
        setting = f"{_SETTINGS[part]} under [options]" if part in _SETTINGS else "account"
        return (
            f"the {title} is {theirs}, and {name}'s is {ours}{lacks}: export the statement of {name}; if the bank writes "
            f"{name}'s {title} so, set {setting} in its file and run `institution rotate {name}`"
        )
    return None


def _is_same(part: str, stated: StatementAccount, wanted: StatementAccount) -> bool:
    match part:
        case "bank":
            theirs, ours = _bank_codes(stated.bank), _bank_codes(wanted.bank)
            # Codes of two kinds cannot be compared.
            return all(theirs[kind] == ours[kind] for kind in theirs.keys() & ours.keys())
        case "branch":
            return not _branches(stated.branch).isdisjoint(_branches(wanted.branch))
        case "number":
            return not _numbers(stated, wanted).isdisjoint(_numbers(wanted, stated))
        case _:
            return _plain(getattr(stated, part)).lstrip("0") == _plain(getattr(wanted, part)).lstrip("0")


def _bank_codes(text: str) -> dict[str, str]:
    codes = dict[str, str]()
    for code in filter(None, map(_plain, text.split("/"))):
        if code.isdigit():
            codes["COMPE" if len(code) <= _BRANCH_LENGTH else "ISPB"] = code.lstrip("0")
        else:
            codes["BIC" if len(code) in (8, 11) else "name"] = code[:8]
    return codes


def _branches(branch: str) -> set[str]:
    """List the branch with its digit and, if the digit is marked, without it."""
    base, mark, _ = branch.partition("-")
    return {_plain(branch).lstrip("0")} | ({_plain(base).lstrip("0")} if mark else set())


def _numbers(account: StatementAccount, other: StatementAccount) -> set[str]:
    """List the account's number as written and, if it begins with the branch, without that."""
    plain = _plain(account.number)
    heads = {form.zfill(_BRANCH_LENGTH) for branch in (account.branch, other.branch) for form in _branches(branch) if form}
    return {plain.lstrip("0")} | {plain.removeprefix(head).lstrip("0") for head in heads if plain.startswith(head)}


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).upper()
