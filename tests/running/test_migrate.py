from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from pixconnect.doors.cli import failures
from pixconnect.doors.cli.failures import CommandError
from pixconnect.features.identity.service.signing_key import about_key
from pixconnect.platform import migrations
from pixconnect.platform.adapters.secret_box import AesSecretBox
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.config import Settings
from pixconnect.running import migrate
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
    assert {step.name for step in applied} == {"baseline"}
    assert await migrate.bring_up_to_date(settings) == []


async def test_tables_of_a_copied_cluster_begin_now_and_those_in_use_keep_their_times(database: postgres.Addresses) -> None:
    await _start_again(database)
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    connection = await asyncpg.connect(database.owner_url)
    for schema, read, _ in migrate.schemas_of(settings):
        await migrations.migrate(connection, schema, read())
    for is_new in (True, False):
        await connection.execute("update pixconnect.partition_pass set passed_at = now() - interval '3 days'")
        await connection.execute("update pixconnect.id_high_water set noted_at = now() - interval '3 days'")
        assert await migrate.bring_up_to_date(settings) == []
        [times] = await connection.fetch(
            "select passed_at, min(noted_at) from pixconnect.partition_pass, pixconnect.id_high_water group by passed_at"
        )
        for at in times:
            assert (datetime.now(UTC) - at < timedelta(minutes=1)) is is_new
    await connection.close()


async def test_a_foreign_secret_key_is_refused_before_anything_is_changed(database: postgres.Addresses) -> None:
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    own, other = (AesSecretBox(bytes([number]) * 32, SystemEntropy()) for number in (1, 2))
    kid = "k" * 43
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    await connection.execute(
        """insert into signing_key (kid, public_jwk, private_sealed, certificates, host, expires_at, created_at, signs_from)
            values ($1, '', $2, array[''::bytea], 'pix.example', now(), now(), now())""",
        kid,
        own.seal(b"private", about_key(kid)),
    )
    with pytest.raises(SealBroken, match="another secret key"):
        await migrate.bring_up_to_date(settings, box=other)
    assert await migrate.bring_up_to_date(settings, box=own) == []
    await _start_again(database)
    assert await migrate.bring_up_to_date(settings, box=other)
    await connection.close()


async def test_a_word_of_an_address_that_nobody_knows_is_named_in_one_line(database: postgres.Addresses) -> None:
    settings = Settings(database_url=database.service_url, owner_database_url=f"{database.owner_url}&sslmod=require")
    with pytest.raises(asyncpg.UndefinedObjectError) as refusal:
        await migrate.bring_up_to_date(settings)
    assert "no setting 'sslmod': look behind the ?" in (failures.explain(refusal.value) or "")


async def test_an_older_server_is_refused(database: postgres.Addresses) -> None:
    async with postgres.as_owner(database) as connection:
        with pytest.raises(CommandError, match=r"needs 16 or later.*pgdg.*apt install postgresql-17"):
            await migrate.refuse_old_server(connection, 990_000)


async def test_there_is_no_sandbox_in_live_mode(database: postgres.Addresses) -> None:
    await _start_again(database)
    settings = Settings(mode="live", database_url=database.service_url, owner_database_url=database.owner_url)
    await migrate.bring_up_to_date(settings)
    async with postgres.as_owner(database) as connection:
        assert await connection.fetchval("select count(*) from pg_namespace where nspname = 'sandbox'") == 0


async def _start_again(database: postgres.Addresses) -> None:
    async with postgres.as_owner(database) as connection:
        await connection.execute("drop schema pixconnect cascade; drop schema sandbox cascade")
