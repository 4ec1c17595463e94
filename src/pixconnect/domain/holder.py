"""Holders, who own an account with us, and parties: accounts as others see them."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

AccountType = Literal["CHECKING", "SAVINGS", "SALARY", "TRANSACTIONAL"]
KeyType = Literal["CPF", "CNPJ", "PHONE", "EMAIL", "EVP"]


class Party(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a transfer: an account, its owner, and the key by which it was found."""

    account_number: str
    account_type: AccountType
    """The scheme's CACC, SVGS, SLRY, TRAN."""
    branch: str
    ispb: str
    """Of the institution, 8 characters."""
    name: str
    tax_id: str
    """CPF or CNPJ, unmasked."""
    bank: str | None = None
    key: str | None = None
    key_type: KeyType | None = None


class Holder(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    """QR codes show it without accents."""
    tax_id: str
    city: str
    branch: str
    account_number: str
    account_type: AccountType
    may_deposit: bool
    """False refuses incoming money."""
    may_withdraw: bool
    """False refuses outgoing money."""
    may_lend: bool
    """Shown in the balance; nothing else depends on it."""
    transfer_limit_cents: int | None
    """For one outgoing transfer; ``None`` is no limit."""
    day_limit_cents: int | None
    """For outgoing transfers of one civil day in Sao Paulo."""
    night_limit_cents: int | None
    """For outgoing transfers of one night, 20:00 to 06:00 in Sao Paulo."""
    disabled_at: datetime | None
    """Since then the holder and its clients are shut out."""
    created_at: datetime
