"""The database that we mean, and no other: its mode, its server, its durability, its sequences."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest
from structlog.testing import capture_logs

from pixconnect.kernel.flows import installation
from pixconnect.kernel.flows.installation import InstallationError
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.tables import installation as installation_store
from support.postgres import Addresses, as_owner
from support.service import make_charge, open_holder, open_service, open_watched_pool

if TYPE_CHECKING:
    from pixconnect.platform.pool import Pool


class Forgetful:
    """Counts how often it had to forget."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def watch() -> ServerWatch:
    return ServerWatch()


@pytest.fixture
async def pool(database: Addresses, watch: ServerWatch) -> AsyncIterator["Pool"]:
    opened = await open_watched_pool(database, watch, 1)
    yield opened
    await opened.close()


async def _own(database: Addresses, statement: str) -> None:
    async with as_owner(database) as owner:
        await owner.execute(statement)


async def test_the_first_mode_is_kept_and_another_is_refused(pool: "Pool", database: Addresses) -> None:
    async with pool.acquire() as connection:
        await installation.check_mode(connection, "live")
        await installation.check_mode(connection, "live")
        with pytest.raises(InstallationError, match=r"made in live mode.*set PIXCONNECT_MODE=live"):
            await installation.check_mode(connection, "sandbox")
    for statement in ("update installation set mode = 'sandbox'", "delete from installation"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await _own(database, statement)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="live"):
        await pool.execute("update clock set offset_us = 1")


async def test_a_server_that_may_lose_what_it_committed_is_refused_in_live_mode(pool: "Pool") -> None:
    """That of the tests is one."""
    async with pool.acquire() as connection:
        with pytest.raises(InstallationError, match="fsync = off and full_page_writes = off"):
            await installation.check_durability(connection, "live")
        with capture_logs() as logs:
            await installation.check_durability(connection, "sandbox")
    assert [(line["log_level"], line["fsync"]) for line in logs] == [("warning", "off")]


async def test_sessions_wait_for_the_disk_whatever_the_server_says(pool: "Pool", database: Addresses) -> None:
    name = database.service_url.partition("@/")[2].partition("?")[0]
    await _own(database, f"alter database {name} set synchronous_commit = off")
    await _own(database, f"alter database {name} set default_transaction_isolation = serializable")
    try:
        await pool.expire_connections()
        assert await pool.fetchval("show synchronous_commit") == "on"
        assert await pool.fetchval("show default_transaction_isolation") == "read committed"
        await _own(database, f"alter database {name} set synchronous_commit = remote_apply")
        await pool.expire_connections()
        assert await pool.fetchval("show synchronous_commit") == "remote_apply"
    finally:
        await _own(database, f"alter database {name} reset all")


async def test_a_sequence_set_back_is_moved_ahead(pool: "Pool", database: Addresses, watch: ServerWatch) -> None:
    forget = Forgetful()
    async with open_service(database) as service:
        caller = await open_holder(service, funds_cents=100)
        for _ in range(600):  # more than a block
            await service.context.ids.charge_id()
        charge = await make_charge(service, caller, amount_cents=1)
    set_back = "select setval('charge_id', 1, false), setval('write_group_id', 1, false)"
    await _own(database, set_back)
    async with pool.acquire() as connection:
        await installation.check_mode(connection, "sandbox")
        watch.on_start(forget)
        with capture_logs() as logs:
            await watch.begin(connection)
    assert forget.count == 2  # at the start, and for the sequences
    assert [line["sequences"] for line in logs] == [["charge_id", "write_group_id"]]
    assert await pool.fetchval("select nextval('charge_id')") > charge.id
    assert await pool.fetchval("select nextval('write_group_id') > max(id) from ledger_entry")
    await _own(database, set_back)
    await pool.expire_connections()
    assert await pool.fetchval("select nextval('charge_id')") > charge.id
    assert forget.count == 3


async def test_sequences_that_are_ahead_are_left_alone(pool: "Pool", watch: ServerWatch) -> None:
    before = await pool.fetchval("select nextval('charge_id')")
    async with pool.acquire() as connection:
        assert await installation_store.catch_up_sequences(connection) == []
        # Asked for all the same, it uses up no ids.
        await connection.execute("select catch_up_sequence('charge_id') from generate_series(1, 100)")
        with pytest.raises(asyncpg.RaiseError, match="no sequence of ids is called audit_id_seq"):
            await connection.execute("select catch_up_sequence('audit_id_seq')")
    assert await pool.fetchval("select nextval('charge_id')") == before + 512


async def test_ids_that_were_taken_before_are_not_given_out_after_forgetting(database: Addresses) -> None:
    async with open_service(database) as service:
        before = await service.context.ids.charge_id()
        service.context.ids.forget()
        assert await service.context.ids.charge_id() >= before + 511
