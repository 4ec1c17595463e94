"""Who owns an account with us, and what an account looks like from outside."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

AccountType = Literal["CHECKING", "SAVINGS", "SALARY", "TRANSACTIONAL"]
KeyType = Literal["CPF", "CNPJ", "PHONE", "EMAIL", "EVP"]


class Party(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a transfer: an account, who owns it, and the key by which it was found.

    Attributes:
        account_number: 1 to 20 characters.
        account_type: As the scheme's CACC, SVGS, SLRY, TRAN.
        bank: The institution's name.
        branch: 1 to 4 characters.
        ispb: The institution's identifier, 8 characters.
        key: The Pix key used.
        key_type: Its type.
        name: The owner's.
        tax_id: The owner's CPF or CNPJ, unmasked.
    """

    account_number: str
    account_type: AccountType
    branch: str
    ispb: str
    name: str
    tax_id: str
    bank: str | None = None
    key: str | None = None
    key_type: KeyType | None = None


class Holder(Struct, frozen=True, kw_only=True):
    """The owner of one account with us.

    Attributes:
        id: Below 2^53.
        name: As printed on QR codes after accents are dropped.
        tax_id: CPF or CNPJ, unmasked.
        city: As printed on QR codes.
        branch: Of the account.
        account_number: Of the account; unique.
        account_type: Of the account.
        may_deposit: False refuses incoming money.
        may_withdraw: False refuses outgoing money.
        may_lend: Shown in the balance; nothing depends on it here.
        transfer_limit_cents: One outgoing transfer at most; ``None`` is no limit.
        day_limit_cents: Outgoing transfers of one civil day in Sao Paulo at most.
        night_limit_cents: Outgoing transfers of one night (20:00 to 06:00 in Sao Paulo) at most.
        disabled_at: Since when the holder and its clients are shut out.
        created_at: Service time.
    """

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
    transfer_limit_cents: int | None
    day_limit_cents: int | None
    night_limit_cents: int | None
    disabled_at: datetime | None
    created_at: datetime
