"""Holders as the operator sees them: opened, limited, blocked, shut out; and the Pix keys that lead to them."""

from __future__ import annotations

import asyncpg
import msgspec
from msgspec import UNSET, Struct, UnsetType

from pixconnect.domain import account as account_rules
from pixconnect.domain import errors, pix_key
from pixconnect.domain import tax_id as tax_id_rules
from pixconnect.domain.holder import AccountType, Holder, KeyType
from pixconnect.domain.money import AMOUNT_MAX_CENTS
from pixconnect.domain.pix_key import PixKey
from pixconnect.store import holder as holder_store
from pixconnect.store import ledger as ledger_store
from pixconnect.usecases import audit
from pixconnect.usecases.lone_write import write_alone
from pixconnect.usecases.operator import OperatorContext
from pixconnect.writing.service_time import service_now_to_write

_TEXT_LENGTH_MAX = 255
_LIMITS = ("transfer_limit_cents", "day_limit_cents", "night_limit_cents")


class NewHolder(Struct, frozen=True, kw_only=True):
    """What a holder is opened with.

    Attributes:
        name: 1 to 255 characters.
        tax_id: CPF or CNPJ, unmasked.
        branch: 1 to 4 digits.
        account_number: 1 to 20 digits or capital letters; no other holder has it.
        city: 1 to 255 characters.
        account_type: Of the account.
        transfer_limit_cents: Of one outgoing transfer; ``None`` is no limit, and unset is none in the sandbox only.
        day_limit_cents: Of outgoing transfers of one day; likewise.
        night_limit_cents: Of outgoing transfers of one night; likewise.
    """

    name: str
    tax_id: str
    branch: str
    account_number: str
    city: str = "Sao Paulo"
    account_type: AccountType = "TRANSACTIONAL"
    transfer_limit_cents: int | UnsetType | None = UNSET
    day_limit_cents: int | UnsetType | None = UNSET
    night_limit_cents: int | UnsetType | None = UNSET


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


async def create_holder(context: OperatorContext, new: NewHolder) -> Holder:
    """Open an account with nothing in it.

    Raises:
        BadRequest: The name's or city's length; in live mode also a limit that is not named.
        AmountOutOfRange: A limit below 0 or above what any Pix can have.
        InvalidTaxId: No CPF and no CNPJ.
        InvalidAccount: A branch or account number of another form, or one that is taken.
    """
    for field, text in (("name", new.name), ("city", new.city)):
        if not 1 <= len(text) <= _TEXT_LENGTH_MAX or not text.isprintable():
            raise errors.BadRequest(f"{field}: must have 1 to {_TEXT_LENGTH_MAX} printable characters")
    limits = _read_limits(new, must_be_named=not context.policy.is_sandbox)
    tax_id_rules.check_tax_id(new.tax_id, "tax_id")
    account_rules.check_account(new.branch, new.account_number, context.policy.ispb)
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
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
            disabled_at=None,
            created_at=now,
            **limits,
        )
        if not await holder_store.insert(connection, holder):
            raise errors.InvalidAccount("account_number: another holder has it")
        await audit.record(context, connection, "holder create", _subject(holder.id), after=holder)
    return holder


async def read_holder(context: OperatorContext, holder_id: int) -> Holder:
    """One holder.

    Raises:
        NotFound: There is no such holder.
    """
    async with context.pool.acquire() as connection:
        return _found(await holder_store.find(connection, holder_id), holder_id)


async def set_holder(context: OperatorContext, holder_id: int, changes: HolderChanges) -> Holder:
    """Change a holder's flags and limits, shut it out or let it in again.

    A limit or flag counts from the next request on; being disabled takes effect on every process within a second.

    Raises:
        NotFound: There is no such holder.
        AmountOutOfRange: A limit below 0 or above what any Pix can have.
        ServiceUnavailable: Somebody holds the account; nothing was done.
    """
    wanted = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    for field, value in wanted.items():
        if field in _LIMITS:
            _check_limit(field, value)
    is_disabled = wanted.pop("is_disabled", None)
    async with write_alone(context.pool) as connection:
        # Groups judge by flags and limits that they read while they hold the balance: those under way are waited for, and
        # whoever comes after the operator has the answer is judged by what it says.
        try:
            await ledger_store.lock_balance(connection, holder_id)
        except asyncpg.LockNotAvailableError:
            raise errors.ServiceUnavailable("the account is locked by another operation; nothing was done") from None
        before = _found(await holder_store.lock(connection, holder_id), holder_id)
        if is_disabled is not None:
            since = before.disabled_at or context.clock.real_now()
            wanted["disabled_at"] = since if is_disabled else None
        holder = msgspec.structs.replace(before, **wanted)
        await holder_store.update(connection, holder)
        verb = "set" if is_disabled is None else "disable" if is_disabled else "enable"
        await audit.record(context, connection, f"holder {verb}", _subject(holder_id), before=before, after=holder)
    return holder


async def add_pix_key(context: OperatorContext, holder_id: int, key_type: KeyType, text: str | None) -> PixKey:
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
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        _found(await holder_store.find(connection, holder_id), holder_id)
        await holder_store.insert_key(connection, key, holder_id, now)
        owners = await holder_store.find_key_owners(connection, [key.key])
        if owners[key.key] != holder_id:
            raise errors.InvalidPixKey("key: another holder has it")
        await audit.record(context, connection, "key add", _subject(holder_id), after=key)
    return key


async def list_pix_keys(context: OperatorContext, holder_id: int) -> list[PixKey]:
    """A holder's keys, oldest first."""
    async with context.pool.acquire() as connection:
        return await holder_store.list_keys(connection, holder_id)


def _read_limits(new: NewHolder, *, must_be_named: bool) -> dict[str, int | None]:
    """A new holder's limits. Where money is real nobody is without them by oversight."""
    limits: dict[str, int | None] = {}
    for field in _LIMITS:
        limit: int | UnsetType | None = getattr(new, field)
        if isinstance(limit, UnsetType) and must_be_named:
            raise errors.BadRequest(
                f"{field.removesuffix('_cents')}: missing; live mode wants every limit named, or --no-limits"
            )
        limits[field] = None if isinstance(limit, UnsetType) else _check_limit(field, limit)
    return limits


def _check_limit(field: str, limit: int | None) -> int | None:
    if limit is not None and not 0 <= limit <= AMOUNT_MAX_CENTS:
        raise errors.AmountOutOfRange(f"{field}: must be from 0 to {AMOUNT_MAX_CENTS} cents")
    return limit


def _found(holder: Holder | None, holder_id: int) -> Holder:
    if holder is None:
        raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
    return holder


def _subject(holder_id: int) -> str:
    return f"holder {holder_id}"
