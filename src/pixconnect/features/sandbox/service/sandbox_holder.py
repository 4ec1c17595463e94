"""Callers of a sandbox make holders for their tests: each with its own client, Pix key and money."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pixconnect.features.identity.service import access
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables.access import StoredClient
from pixconnect.kernel.flows import ledger
from pixconnect.kernel.flows.context import Context, writing
from pixconnect.kernel.rules import access as access_rules
from pixconnect.kernel.rules import holder, money
from pixconnect.kernel.rules import tax_id as tax_id_rules
from pixconnect.kernel.rules.access import SCOPES, Caller, Client
from pixconnect.kernel.writing.service_time import service_now_to_write
from pixconnect.platform.base import errors

HOLDERS_MAX = 1_000_000
"""In one sandbox, those that operators made included."""

_NAME_LENGTH_MAX = 255


class NewSandboxHolder(Struct, frozen=True, kw_only=True):
    name: str = "Loja de Teste"
    tax_id: str = "12345678000195"
    balance_cents: int | None = None
    """``None`` is an empty account."""
    scopes: Sequence[str] = SCOPES
    """Its client's scopes."""


class SandboxHolder(Struct, frozen=True, kw_only=True):
    """What a test needs to act as this holder."""

    holder_id: int
    client_id: str
    client_secret: str
    """Returned here and cannot be read again."""
    key: str
    """An EVP."""


async def open_sandbox_holder(
    context: Context, caller: Caller, new: NewSandboxHolder, holders_max: int = HOLDERS_MAX
) -> SandboxHolder:
    """Make a holder with a client, a Pix key and, if asked, money.

    Raises:
        InvalidTaxId: The tax id is neither a CPF nor a CNPJ.
        AmountOutOfRange: The balance is one that no Pix can have.
    """
    if not context.policy.is_sandbox:
        raise errors.NotFound("there is no sandbox in live mode")
    if not 1 <= len(new.name) <= _NAME_LENGTH_MAX or not new.name.isprintable():
        raise errors.BadRequest(f"name: must have 1 to {_NAME_LENGTH_MAX} printable characters")
    tax_id_rules.check_tax_id(new.tax_id, "tax_id")
    if new.balance_cents is not None:
        money.check_amount(new.balance_cents, "balance")
    client = Client(
        client_id=access.make_client_id(context.entropy),
        holder_id=0,
        name="tests",
        scopes=access_rules.parse_scopes(new.scopes),
        created_at=context.clock.real_now(),
    )
    client_secret = access.make_webhook_secret(context.entropy)
    secret_hash, *_ = access.hash_secret(context.secret_box, client.client_id, client_secret)
    stored = StoredClient(
        client=client, secret_hash=secret_hash, secret_key_id=context.secret_box.key_id, may_log_in=True
    )
    key = holder.parse_pix_key(str(context.entropy.uuid4()), "EVP")
    # Two transactions: if the second fails, the holder exists, and its secret is lost.
    async with writing(context.pool) as write:
        async with write.transaction() as connection:
            holder_id = await access_store.open_sandbox_holder(
                connection,
                new.name,
                new.tax_id,
                key,
                stored,
                now=await service_now_to_write(context.clock, connection),
                asked_by=f"client {caller.client_id}",
                holders_max=holders_max,
            )
            if holder_id is None:
                raise errors.LimitExceeded(f"a sandbox can have {holders_max} holders: begin with an empty home")
        if new.balance_cents is not None:
            await ledger.deposit(context, holder_id, new.balance_cents)
    return SandboxHolder(holder_id=holder_id, client_id=client.client_id, client_secret=client_secret, key=key.key)
