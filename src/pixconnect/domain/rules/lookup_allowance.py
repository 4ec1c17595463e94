"""How many look-ups of keys a payer has, by its kind, and what each costs (DICT API, ENTRIES_READ_USER_ANTISCAN)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame.rate import RatePolicy
from pixconnect.domain.rules.register import ARRANGEMENT

_CPF_LENGTH: Final = 11


class LookupAllowance(Struct, frozen=True, kw_only=True):
    """In tokens, as the directory counts them."""

    policy: RatePolicy
    missed_cost: int
    """A key or an account that nobody has."""
    found_cost: int
    """One that somebody has, and that is not paid."""
    paid_tokens: int
    """What a payment that settles gives back."""


def find_lookup_allowance(tax_id: str, now: datetime) -> LookupAllowance:
    """What a payer with this CPF or CNPJ may look up."""
    kind = "person" if len(tax_id) == _CPF_LENGTH else "firm"
    refill = _read(f"{kind}_lookup_refill", now)
    return LookupAllowance(
        policy=RatePolicy(
            name="lookups",
            tokens_max=_read(f"{kind}_lookup_tokens", now),
            refill_per_s=refill / 60,
        ),
        missed_cost=_read("lookup_missed", now),
        found_cost=_read("lookup_found", now),
        paid_tokens=_read(f"{kind}_lookup_paid", now),
    )


def _read(name: str, now: datetime) -> int:
    return ARRANGEMENT.find(name, now).read_value()
