"""Who was paid, as an institution tells it with a Pix that was sent: some members whole, some masked, some not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from pixconnect.adapters.institutions.message import as_members
from pixconnect.adapters.institutions.wire import find_free_text
from pixconnect.domain.money.holder import UNKNOWN_PARTY, Party

_NAME_MAX: Final = 200
_TAX_ID_MAX: Final = 20
_NUMBER_MAX: Final = 20
_ISPB_LENGTH: Final = 8


def find_listed_payee(
    owner: Mapping[str, object], account: Mapping[str, object] | None = None, **names: str
) -> Party | None:
    """A payee, with what is told of it; ``None`` of which nothing is. It is only shown, so nothing of it is refused.

    Args:
        owner: Members that say whose the account is.
        account: Those that say which it is; by default the same.
        names: By our member, how it is called there, of several names with commas the first that is told.
    """
    of = dict(name=owner, tax_id=owner)
    bounds = dict(name=_NAME_MAX, tax_id=_TAX_ID_MAX)
    told = dict[str, str]()
    for member, called in names.items():
        members = of.get(member, owner if account is None else account)
        texts = (find_free_text(members, name, bounds.get(member, _NUMBER_MAX)) for name in called.split(","))
        text = next(filter(None, texts), None)
        # Of another length it is another number of a bank, and must not be shown as an ISPB.
        if text is not None and (member != "ispb" or len(text) == _ISPB_LENGTH):
            told[member] = _bare(text) if member == "tax_id" else text
    return structs.replace(UNKNOWN_PARTY, **told) if told else None


def _bare(tax_id: str) -> str:
    """Without its marks, where nothing of it is hidden."""
    return "".join(each for each in tax_id if each.isalnum()) if "*" not in tax_id else tax_id


def find_first(members: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """The first of these members that is an object; an empty one where none is."""
    for name in names:
        found = as_members(members.get(name))
        if found:
            return found
    return {}
