"""Holders in the sandbox: the demonstration, with money, a Pix key of each type and a client with all scopes; and for tests.

Every step of the demonstration first checks the present state, so that an interrupted run can be repeated.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.identity.service import access
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables.access import StoredClient
from pixconnect.features.sandbox.service.clock import BEHIND_MAX
from pixconnect.kernel.flows import audit, holder, ledger
from pixconnect.kernel.flows.context import Context, Operator, writing
from pixconnect.kernel.flows.holder import NewHolder
from pixconnect.kernel.rules import access as access_rules
from pixconnect.kernel.rules import money
from pixconnect.kernel.rules import tax_id as tax_id_rules
from pixconnect.kernel.rules.access import SCOPES, Caller, Client
from pixconnect.kernel.rules.holder import Holder, KeyType, parse_pix_key
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors

DEPOSIT_CENTS: Final = 100_000_000  # R$ 1.000.000,00

_HOLDER: Final = NewHolder(
    name="Loja Demonstração Ltda",
    tax_id="12345678000195",
    city="São Paulo",
    street="Avenida Paulista, 1000",
    state="SP",
    postal_code="01310100",
    branch="0001",
    account_number="10000001",
    account_type="TRANSACTIONAL",
)
_KEYS: Final[dict[KeyType, str | None]] = {
    "EMAIL": "loja@demo.pix.example",
    "CPF": "12345678909",
    "CNPJ": "12345678000195",
    "PHONE": "+5511987654321",
    "EVP": None,  # the service makes it
}

_BY: Final = "demonstration"  # the operator in whose name its client gets new scopes
_ACTS_MAX: Final = 10_000  # of operators about this client, of which one may have chosen its scopes


class DemoCredentials(Struct, frozen=True, kw_only=True):
    client_id: str
    client_secret: str
    holder_id: str
    pix_keys: list[str]


HOLDERS_MAX = 1_000_000  # maximum in one sandbox, including those that operators made

_NAME_LENGTH_MAX = 255


class NewSandboxHolder(Struct, frozen=True, kw_only=True):
    name: str = "Loja de Teste"
    tax_id: str = "12345678000195"
    balance_cents: int | None = None  # ``None`` is an empty account
    scopes: Sequence[str] = SCOPES


class SandboxHolder(Struct, frozen=True, kw_only=True):
    """Credentials of a test's holder."""

    holder_id: int
    client_id: str
    client_secret: str  # returned here and cannot be read again
    key: str  # an EVP


async def prepare_demonstration(
    context: Context,
    operator: Operator,
    known: DemoCredentials | None,
    *,
    client_id: str = "",
    client_secret: str = "",
    clock_at: datetime | None = None,
) -> DemoCredentials:
    """Make the missing parts of the demonstration.

    ``client_id`` and ``client_secret`` name the client; if empty, both are generated. Only an earlier start has its secret
    (``known``): we store the hash. ``clock_at`` is the first start's clock: nothing falls due on the way.
    """
    if clock_at is not None and await _find_holder(operator) is None:
        await _begin_clock(operator, clock_at)
    owner = await _open_holder(operator)
    keys = {key.key_type: key.key for key in await holder.list_pix_keys(operator, owner.id)}
    for key_type, text in _KEYS.items():
        if key_type in keys:
            continue
        # An operator may since have removed it and assigned it to another holder.
        with suppress(errors.InvalidPixKey):
            keys[key_type] = (await holder.add_pix_key(operator, owner.id, key_type, text)).key
    balance = await ledger_store.find_balance(context.pool, owner.id)
    # A holder with any entry has had its deposit, however little remains.
    if balance is not None and balance.last_number == 0:
        await ledger.deposit(context, owner.id, DEPOSIT_CENTS)
    clients = await access.list_clients(operator, owner.id)
    scopes = {client.client_id: client.scopes for client in clients if not client.disabled_at}
    if known is not None and known.client_id in scopes and client_id in ("", known.client_id):
        client_id, client_secret = known.client_id, known.client_secret
        # An older version made it, or one with other features. Scopes chosen by an operator stay.
        if set(scopes[client_id]) != set(SCOPES):
            acts = await audit.list_entries(operator, subjects=[f"client {client_id}"], count_max=_ACTS_MAX)
            if all(act.operator == _BY for act in acts if act.verb == "client set"):
                await access.set_scopes(structs.replace(operator, operator=_BY), client_id, SCOPES)
    else:
        if client_id in {client.client_id for client in clients}:
            raise errors.BadRequest(
                "PIXCONNECT_DEMONSTRATION_CLIENT_ID: there is such a client, whose secret is not known here: name another"
            )
        # Also if the credentials were lost: the old client's secret cannot be read again.
        issued = await access.create_client(
            operator, owner.id, "demonstration", SCOPES, client_id=client_id, client_secret=client_secret
        )
        client_id, client_secret = issued.client.client_id, issued.client_secret
    return DemoCredentials(
        client_id=client_id,
        client_secret=client_secret,
        holder_id=str(owner.id),
        pix_keys=[keys[key_type] for key_type in _KEYS if key_type in keys],
    )


async def _open_holder(context: Operator) -> Holder:
    try:
        return await holder.create_holder(context, _HOLDER)
    except errors.InvalidAccount:
        # An earlier start has made the account, unless it is invalid for another reason.
        found = await _find_holder(context)
        if found is None:
            raise
        return found


async def _find_holder(context: Operator) -> Holder | None:
    async with context.pool.acquire() as connection:
        return await holder_store.find_by_account(connection, _HOLDER.branch, _HOLDER.account_number)


async def _begin_clock(context: Operator, clock_at: datetime) -> None:
    real_now = context.clock.real_now()
    if clock_at < real_now - BEHIND_MAX:
        raise errors.BadRequest(
            f"PIXCONNECT_SANDBOX_CLOCK_AT: the clock begins {BEHIND_MAX.days} days before real time at most"
        )
    async with context.pool.acquire() as connection:
        offset = clock_at - real_now
        context.clock.set_offset(offset, await clock_store.move(connection, offset))


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
    stored = StoredClient(client=client, secret_hash=secret_hash, secret_key_id=context.secret_box.key_id, may_log_in=True)
    key = parse_pix_key(str(context.entropy.uuid4()), "EVP")
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
