"""Holders as the operator sees them: opened, limited, blocked, shut out; and the Pix keys that lead to them."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pixconnect.domain import account as account_rules
from pixconnect.domain import errors, pix_key
from pixconnect.domain import tax_id as tax_id_rules
from pixconnect.domain.holder import AccountType, Holder, KeyType
from pixconnect.domain.money import AMOUNT_MAX_CENTS
from pixconnect.domain.pix_key import PixKey
from pixconnect.store import holder as holder_store

if TYPE_CHECKING:
    from pixconnect.usecases.operator import OperatorContext

_TEXT_LENGTH_MAX = 255


class NewHolder(Struct, frozen=True, kw_only=True):
    """What a holder is opened with.

    Attributes:
        name: 1 to 255 characters.
        tax_id: CPF or CNPJ, unmasked.
        branch: 1 to 4 digits.
        account_number: 1 to 20 digits or capital letters; no other holder has it.
        city: 1 to 255 characters.
        account_type: Of the account.
    """

    name: str
    tax_id: str
    branch: str
    account_number: str
    city: str = "Sao Paulo"
    account_type: AccountType = "TRANSACTIONAL"


class HolderChanges(Struct, frozen=True, kw_only=True):
    """What changes of a holder; what is left unset stays as it is.

    Attributes:
        may_deposit: False refuses incoming money.
        may_withdraw: False refuses outgoing money.
        may_lend: Shown in the balance.
        transfer_limit_cents: Of one outgoing transfer; ``None`` is no limit.
        day_limit_cents: Of outgoing transfers of one day.
        night_limit_cents: Of outgoing transfers of one night.
        is_disabled: True shuts out the holder and all its clients; False lets them in again.
    """

    may_deposit: bool | UnsetType = UNSET
    may_withdraw: bool | UnsetType = UNSET
    may_lend: bool | UnsetType = UNSET
    transfer_limit_cents: int | UnsetType | None = UNSET
    day_limit_cents: int | UnsetType | None = UNSET
    night_limit_cents: int | UnsetType | None = UNSET
    is_disabled: bool | UnsetType = UNSET


async def create_holder(context: "OperatorContext", new: NewHolder) -> Holder:
    """Open an account with nothing in it.

    Raises:
        BadRequest: The name's or city's length.
        InvalidTaxId: No CPF and no CNPJ.
        InvalidAccount: A branch or account number of another form, or one that is taken.
    """
    for field, text in (("name", new.name), ("city", new.city)):
        if not 1 <= len(text) <= _TEXT_LENGTH_MAX or not text.isprintable():
            raise errors.BadRequest(f"{field}: must have 1 to {_TEXT_LENGTH_MAX} printable characters")
    tax_id_rules.check_tax_id(new.tax_id, "tax_id")
    account_rules.check_account(new.branch, new.account_number, context.policy.ispb)
    async with context.pool.acquire() as connection, connection.transaction():
        context.clock.set_offset(await holder_store.read_clock_offset(connection))
        holder = Holder(
            id=await holder_store.next_id(connection),
            name=new.name,
            tax_id=new.tax_id,
            city=new.city,
            branch=new.branch,
            account_number=new.account_number,
            account_type=new.account_type,
            may_deposit=True,
            may_withdraw=True,
            may_lend=False,
            transfer_limit_cents=None,
            day_limit_cents=None,
            night_limit_cents=None,
            disabled_at=None,
            created_at=context.clock.now(),
        )
        if not await holder_store.insert(connection, holder):
            raise errors.InvalidAccount("account_number: another holder has it")
    return holder


async def read_holder(context: "OperatorContext", holder_id: int) -> Holder:
    """One holder.

    Raises:
        NotFound: There is no such holder.
    """
    async with context.pool.acquire() as connection:
        return _found(await holder_store.find(connection, holder_id), holder_id)


async def set_holder(context: "OperatorContext", holder_id: int, changes: HolderChanges) -> Holder:
    """Change a holder's flags and limits, shut it out or let it in again.

    A limit or flag counts from the next request on; being disabled takes effect on every process within a second.

    Raises:
        NotFound: There is no such holder.
        AmountOutOfRange: A limit below 0 or above what any Pix can have.
    """
    wanted = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    for field, value in wanted.items():
        if field.endswith("_cents") and value is not None and not 0 <= value <= AMOUNT_MAX_CENTS:
            raise errors.AmountOutOfRange(f"{field}: must be from 0 to {AMOUNT_MAX_CENTS} cents")
    is_disabled = wanted.pop("is_disabled", None)
    async with context.pool.acquire() as connection, connection.transaction():
        holder = _found(await holder_store.lock(connection, holder_id), holder_id)
        if is_disabled is not None:
            since = holder.disabled_at or context.clock.real_now()
            wanted["disabled_at"] = since if is_disabled else None
        holder = msgspec.structs.replace(holder, **wanted)
        await holder_store.update(connection, holder)
    return holder


async def add_pix_key(context: "OperatorContext", holder_id: int, key_type: KeyType, text: str | None) -> PixKey:
    """Register a Pix key that leads to a holder. Doing it twice changes nothing.

    Args:
        context: Of this process.
        holder_id: Whose it becomes.
        key_type: Its type.
        text: The key; only an EVP may be left to us to make.

    Returns:
        The key as it is kept.

    Raises:
        BadRequest: No key, and the type is not EVP.
        InvalidPixKey: Not of this type's form, or another holder has it.
        NotFound: There is no such holder.
    """
    if text is None and key_type != "EVP":
        raise errors.BadRequest(f"key: missing; only an EVP is made by the service, not a {key_type}")
    key = pix_key.parse_pix_key(str(context.entropy.uuid4()) if text is None else text, key_type)
    async with context.pool.acquire() as connection, connection.transaction():
        context.clock.set_offset(await holder_store.read_clock_offset(connection))
        _found(await holder_store.find(connection, holder_id), holder_id)
        await holder_store.insert_key(connection, key, holder_id, context.clock.now())
        owners = await holder_store.find_key_owners(connection, [key.key])
    if owners[key.key] != holder_id:
        raise errors.InvalidPixKey("key: another holder has it")
    return key


async def list_pix_keys(context: "OperatorContext", holder_id: int) -> list[PixKey]:
    """A holder's keys, oldest first."""
    async with context.pool.acquire() as connection:
        return await holder_store.list_keys(connection, holder_id)


def _found(holder: Holder | None, holder_id: int) -> Holder:
    if holder is None:
        raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
    return holder
