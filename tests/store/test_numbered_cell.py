"""A database that is a cell gives out ids of no other, and keeps its number; a logical copy finds each of its rows."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.domain.frame import cell
from pixconnect.domain.money.refund import RefundRequest
from pixconnect.domain.money.transfer import AccountTransferRequest
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import incoming
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.running import installation
from pixconnect.usecases.standard import location as location_usecases
from support.postgres import Addresses
from support.records import outside_party
from support.service import credit_report, make_charge, open_holder, open_service

NUMBER = 200


@pytest.fixture
async def owner(database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        yield connection
    finally:
        await connection.close()


async def become(owner: asyncpg.Connection, number: int) -> None:
    """As ``cell add`` will: the mode is said, and then the number."""
    await installation.check_mode(owner, "sandbox")
    await owner.execute("select become_cell($1)", number)


async def test_all_that_a_cell_makes_says_its_number(database: Addresses, owner: asyncpg.Connection) -> None:
    await become(owner, NUMBER)
    assert await installation_store.read_cell(owner) == NUMBER
    async with open_service(database, cell=NUMBER) as service:
        context, caller = service.context, await open_holder(service, funds_cents=10_000)
        charge = await make_charge(service, caller)
        await incoming.receive_credit(context, credit_report(service, txid=charge.txid))
        received = await charge_usecases.read_paying_transfer(context, caller, charge.id)
        asked = RefundRequest(end_to_end_id=received.end_to_end_id, amount_cents=100)
        refund = await refund_usecases.start_refund(context, caller, asked)
        sending = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
        sent = (await transfer_usecases.start_transfer(context, caller, sending)).transfer
        location = await location_usecases.create_location(context, caller, "cob")
    ids = [caller.holder_id, charge.id, received.id, refund.id, sent.id, location.id]
    assert [cell.cell_of_id(number) for number in ids] == [NUMBER] * len(ids)
    names = [charge.txid, refund.return_id, sent.end_to_end_id, location.token]
    assert [cell.find_named_cell(name) for name in names] == [NUMBER] * len(names)
    # What is compared with ids of other cells stays exact in every caller's language.
    assert max(ids) < 2**53


async def test_the_home_cells_ids_are_what_they_were(database: Addresses, owner: asyncpg.Connection) -> None:
    async with open_service(database) as service:
        caller = await open_holder(service)
        charge = await make_charge(service, caller)
    assert (caller.holder_id, charge.id) == (1, 1)
    assert await owner.fetchval("select count(*) from pg_sequence where seqmax = 2::bigint ^ 45 - 1") == 5


async def test_a_cell_keeps_its_number(database: Addresses, owner: asyncpg.Connection) -> None:
    await become(owner, NUMBER)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="a cell keeps its number"):
        await owner.execute("select become_cell(7)")
    assert await installation_store.read_cell(owner) == NUMBER


async def test_what_has_a_holder_becomes_no_other_cell(database: Addresses, owner: asyncpg.Connection) -> None:
    await installation.check_mode(owner, "sandbox")
    async with open_service(database) as service:
        await open_holder(service)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="a cell keeps its number"):
        await owner.execute("select become_cell(7)")
    assert await owner.fetchval("select nextval('holder_id')") < cell.IDS_MAX


@pytest.mark.parametrize("number", [-1, 256])
async def test_there_are_256_cells(owner: asyncpg.Connection, number: int) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="there_are_256_cells"):
        await become(owner, number)


async def test_a_cell_whose_ids_are_used_up_gives_out_none_of_the_next(owner: asyncpg.Connection) -> None:
    await become(owner, NUMBER)
    await owner.execute("select setval('charge_id', $1)", (NUMBER + 1) * cell.IDS_MAX - 512)
    with pytest.raises(asyncpg.SequenceGeneratorLimitExceededError):
        await owner.fetchval("select nextval('charge_id')")


async def test_only_the_owner_may_say_which_cell_it_is(database: Addresses, owner: asyncpg.Connection) -> None:
    await installation.check_mode(owner, "sandbox")
    async with open_service(database) as service:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.context.pool.execute("select become_cell(7)")


async def test_all_names_of_a_new_database_have_a_tag(owner: asyncpg.Connection) -> None:
    await installation.check_mode(owner, "sandbox")
    assert await owner.fetchval("select tagged_since = '-infinity' from installation")


async def test_names_from_before_the_mode_was_kept_have_none(database: Addresses, owner: asyncpg.Connection) -> None:
    async with open_service(database) as service:
        await open_holder(service)
    await installation.check_mode(owner, "sandbox")
    assert await owner.fetchval("select tagged_since between made_at - interval '1 s' and made_at from installation")


async def test_a_logical_copy_finds_each_row_that_is_changed(owner: asyncpg.Connection) -> None:
    """By a primary key, or by all columns; ``relreplident`` d is the primary key where there is one."""
    lacking = await owner.fetch("""
        select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'pixconnect'::regnamespace
            and relreplident <> 'f'
            and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)
    """)
    assert [row["relname"] for row in lacking] == []
