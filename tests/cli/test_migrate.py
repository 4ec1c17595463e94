import asyncpg

from pixconnect.cli import migrate
from pixconnect.config import Settings
from support import postgres


async def test_a_database_that_is_up_to_date_is_left_alone(database: postgres.Addresses) -> None:
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    assert await migrate.bring_up_to_date(settings) == []


async def test_an_empty_database_gets_all_tables_and_a_second_time_nothing(
    postgres_server: postgres.Addresses, database: postgres.Addresses
) -> None:
    await _start_again(database)
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    applied = await migrate.bring_up_to_date(settings)
    assert {"holders_and_ledger"} <= {migration.name for migration in applied}
    assert await migrate.bring_up_to_date(settings) == []


async def test_there_is_no_sandbox_in_live_mode(database: postgres.Addresses) -> None:
    await _start_again(database)
    settings = Settings(mode="live", database_url=database.service_url, owner_database_url=database.owner_url)
    await migrate.bring_up_to_date(settings)
    connection = await asyncpg.connect(database.owner_url)
    assert await connection.fetchval("select count(*) from pg_namespace where nspname = 'sandbox'") == 0
    await connection.close()


async def _start_again(database: postgres.Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    await connection.execute("drop schema pixconnect cascade; drop schema sandbox cascade")
    await connection.close()
