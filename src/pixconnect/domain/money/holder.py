"""Holders, who own an account with us, and parties: accounts as the network shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.domain.due.address import Address
from pixconnect.domain.money.limit import Limits

AccountType = Literal["CHECKING", "SAVINGS", "SALARY", "TRANSACTIONAL"]
KeyType = Literal["CPF", "CNPJ", "PHONE", "EMAIL", "EVP"]


class Party(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account, its owner, and the key by which it was found."""

    # In the order in which callers are shown them.
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
"""What the contract's shapes show of a party of whom an institution tells nothing: it requires all of these."""


class Holder(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    tax_id: str
    city: str
    branch: str
    account_number: str
    account_type: AccountType
    may_deposit: bool
    may_withdraw: bool
    may_lend: bool
    """Shown in the balance; nothing else depends on it."""
    transfer_limit_cents: int | None
    """Limits are on outgoing transfers; ``None`` is no limit."""
    day_limit_cents: int | None
    night_limit_cents: int | None
    disabled_at: datetime | None
    created_at: datetime
    institution_id: int | None = None
    """The account at an institution on which its money lies; ``None`` is the installation's own rail."""
    approve_above_cents: int | None = None
    """Outgoing transfers above this wait for an operator's yes; ``None`` is none."""
    approve_new_payees: bool = False
    """Outgoing transfers to payees to whom none has settled yet wait for it too."""
    street: str | None = None
    """With state and postal code, or none of the three; without them it makes no charges with a due date."""
    state: str | None = None
    postal_code: str | None = None
    night_begins_late: bool = False
    """Of the two hours at which the night of the night limit may begin, the later one."""
    family_id: int | None = None
    """The first of the holders that succeeded each other; ``None`` where none did."""
    successor_id: int | None = None
    """The newest of them, which has the clients, keys and webhooks of all."""

    @property
    def limits(self) -> Limits:
        return Limits(
            transfer_cents=self.transfer_limit_cents,
            day_cents=self.day_limit_cents,
            night_cents=self.night_limit_cents,
            night_begins_late=self.night_begins_late,
        )

    def with_limits(self, limits: Limits) -> Holder:
        """The same holder under other limits."""
        return structs.replace(
            self,
            transfer_limit_cents=limits.transfer_cents,
            day_limit_cents=limits.day_cents,
            night_limit_cents=limits.night_cents,
            night_begins_late=limits.night_begins_late,
        )

    @property
    def address(self) -> Address | None:
        if self.street is None or self.state is None or self.postal_code is None:
            return None
        return Address(street=self.street, city=self.city, state=self.state, postal_code=self.postal_code)
