"""Holders that callers create for their tests: their contents, their audit, and that live mode has none."""

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.identity.service import access
from pixconnect.features.proof.service.verify import RULES
from pixconnect.features.proof.tables import look
from pixconnect.features.proof.tables.audit import AUDIT
from pixconnect.features.sandbox.service.demonstration import NewSandboxHolder, open_sandbox_holder
from pixconnect.kernel.flows import audit, holder, ledger
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.proof import Finding
from pixconnect.kernel.tables import installation
from pixconnect.platform import privileges
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection
from support.books import check_books
from support.operators import as_operator
from support.postgres import LOGIN_ROLE, Copy
from support.service import Service


async def find_unaudited(connection: Connection) -> list[Finding]:
    names = {rule.name for rule in AUDIT}
    rules = [rule for rule in RULES if rule.name in names]
    return [found for rule in rules for found in await look.ask(connection, rule, None, None)]


@pytest.fixture(autouse=True)
async def mode(service: Service) -> None:
    async with service.context.pool.acquire() as connection:
        assert await installation.take_mode(connection, "sandbox") == "sandbox"


async def test_it_has_a_client_a_key_money_and_its_rows_of_the_audit(service: Service, caller: Caller) -> None:
    made = await open_sandbox_holder(service.context, caller, NewSandboxHolder(name="Ana", balance_cents=1234))
    operator = as_operator(service.context)
    opened = await holder.read_holder(operator, made.holder_id)
    assert (opened.name, opened.created_at, opened.may_withdraw) == ("Ana", service.clock.now(), True)
    # Without one it could make no charge with a due date.
    assert opened.address is not None
    assert [key.key for key in await holder.list_pix_keys(operator, made.holder_id)] == [made.key]
    assert await service.context.directory.find_owner(made.key) == made.holder_id
    (client,) = await access.list_clients(operator, made.holder_id)
    assert (client.client_id, client.scopes) == (made.client_id, SCOPES)
    own = Caller(client_id=client.client_id, holder_id=made.holder_id, scopes=frozenset(client.scopes))
    assert (await ledger.read_balance(service.context, own)).available_cents == 1234
    rows = (await audit.list_entries(operator, count_max=3))[::-1]
    subjects = [f"holder {made.holder_id}"] * 2 + [f"client {made.client_id}"]
    assert [(row.verb, row.subject) for row in rows] == list(
        zip(("holder create", "key add", "client create"), subjects, strict=True)
    )
    assert {row.operator for row in rows} == {f"client {caller.client_id}"}
    assert made.key in str(rows[1].after)
    assert "secret" not in str(rows[2].after)
    assert await Copy.ask(service.database, find_unaudited) == []
    await check_books(service)


async def test_two_of_them_have_nothing_in_common(service: Service, caller: Caller) -> None:
    first, second = [await open_sandbox_holder(service.context, caller, NewSandboxHolder()) for _ in range(2)]
    assert not set(structs.astuple(first)) & set(structs.astuple(second))


@pytest.mark.parametrize(
    ("new", "error", "field"),
    [
        (NewSandboxHolder(name=""), errors.BadRequest, "name"),
        (NewSandboxHolder(name="a\nb"), errors.BadRequest, "name"),
        (NewSandboxHolder(tax_id="12345678000190"), errors.InvalidTaxId, "tax_id"),
        (NewSandboxHolder(scopes=("everything",)), errors.BadRequest, "scope"),
        (NewSandboxHolder(scopes=()), errors.BadRequest, "scope"),
        (NewSandboxHolder(balance_cents=0), errors.AmountOutOfRange, "balance"),
        (NewSandboxHolder(balance_cents=10**400), errors.AmountOutOfRange, "balance"),
    ],
)
async def test_what_no_holder_can_be_makes_none(
    service: Service, caller: Caller, new: NewSandboxHolder, error: type[errors.Refusal], field: str
) -> None:
    with pytest.raises(error, match=f"^{field}"):
        await open_sandbox_holder(service.context, caller, new)
    assert [row["id"] for row in await service.fetch("select id from holder")] == [caller.holder_id]


async def test_there_is_a_bound(service: Service, caller: Caller) -> None:
    holders_max = caller.holder_id + 1
    await open_sandbox_holder(service.context, caller, NewSandboxHolder(), holders_max)
    with pytest.raises(errors.LimitExceeded, match=f"can have {holders_max} holders"):
        await open_sandbox_holder(service.context, caller, NewSandboxHolder(), holders_max)


async def test_in_live_mode_there_are_none(service: Service, caller: Caller) -> None:
    policy = structs.replace(service.context.policy, is_sandbox=False)
    with pytest.raises(errors.NotFound):
        await open_sandbox_holder(structs.replace(service.context, policy=policy), caller, NewSandboxHolder())


async def test_only_the_role_of_a_sandbox_may_make_them_and_only_in_one(service: Service, caller: Caller) -> None:
    owner = await asyncpg.connect(service.database.owner_url, server_settings={"search_path": "pixconnect"})
    call = "select open_sandbox_holder('a', '12345678000195', 'k', now(), 'c', '{ledger.read}', 'id', $1, null, now(), 'x', 9)"
    call = call.replace("$1", f"decode('{'00' * 32}', 'hex')")
    try:
        for role in ("pixconnect_service", "pixconnect_operator"):
            await owner.execute(f"set role {role}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for function"):
                await owner.execute(call)
            await owner.execute("reset role")
        # Every caller is refused if the tables are not a sandbox's: live ones, or unmarked ones.
        await owner.execute("alter table installation disable trigger all; delete from installation")
        for mode in (None, "live"):
            if mode:
                await owner.execute(f"insert into installation (mode) values ('{mode}')")
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="in a sandbox alone"):
                await open_sandbox_holder(service.context, caller, NewSandboxHolder())
        # Migrating in live mode takes the right away besides.
        await privileges.forbid_play(owner, "pixconnect")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for function"):
            await open_sandbox_holder(service.context, caller, NewSandboxHolder())
        await privileges.allow_play(owner, "pixconnect", LOGIN_ROLE)
    finally:
        await owner.execute("truncate installation; alter table installation enable trigger all")
        await owner.close()
