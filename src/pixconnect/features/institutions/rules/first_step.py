"""Sending in two steps: the first names a Pix, returns the key's owner and moves nothing; the second pays.

The first step's result is recorded before the second is called, and that is called once: its name is the institution's, so that
a second first step would be another Pix.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import CertainRefusal, NotSent
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party


class NamedPix(Struct, frozen=True, kw_only=True):
    """The result of a first step."""

    code: str
    """By which the second step and each question name it."""
    owner_tax_id: str | None
    """The tax id of the key's owner, as reported: it may be masked."""
    owner_name: str | None


MintAnswer = NamedPix | CertainRefusal | NotSent


@runtime_checkable
class FirstStep(Protocol):
    """Sends in two steps; the second is its ``send``."""

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        """Take the first step. Repeating it names another Pix; an unknown result is ``NotSent``."""
        ...


def is_another_owner(payee: Party, owner_tax_id: str | None) -> bool:
    """Whether the key may belong to another owner than the caller named, or than the key itself names.

    Example:
        >>> from msgspec import structs
        >>> named = structs.replace(UNKNOWN_PARTY, tax_id="12345678909")
        >>> [is_another_owner(payee, "98765432100") for payee in (named, UNKNOWN_PARTY)], is_another_owner(named, None)
        ([True, False], True)
    """
    # A CPF or CNPJ used as key identifies its owner; another owner is compared only if reported.
    known = payee.key if owner_tax_id is None else owner_tax_id
    return payee.tax_id not in (UNKNOWN_PARTY.tax_id, known)
