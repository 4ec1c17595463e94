"""Homes of earlier versions are upgraded with work in flight: all that they had acknowledged is there, and ends."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import asyncpg
import msgspec
import pytest

from pixconnect.local.postgres_programs import PostgresVersion, find_programs
from support import postgres
from support.installation import running
from support.listener import Listener
from support.old_home import BASE_URL, COMMITS, DUMPS, SECRET_KEY
from support.ports import reserved_port
from support.work_in_flight import Acknowledged, check_that_all_ends

pytestmark = pytest.mark.long


@pytest.fixture(params=COMMITS)
async def restored(
    request: pytest.FixtureRequest, postgres_server: postgres.Addresses
) -> AsyncIterator[tuple[postgres.Addresses, Acknowledged]]:
    """The database of an old home as it was when all of it was killed, and what its callers had been told."""
    commit, name = str(request.param), f"old_{request.param}"
    addresses = await postgres.make_empty(postgres_server, name)
    programs = find_programs(cast("PostgresVersion", request.config.getoption("postgres_version")))
    words = ["--no-owner", "--exit-on-error", f"--dbname={addresses.owner_url}", DUMPS / f"{commit}.dump"]
    subprocess.run([programs / "bin" / "pg_restore", *words], check=True)
    yield addresses, msgspec.json.decode((DUMPS / f"{commit}.json").read_bytes(), type=Acknowledged)
    await postgres.drop_copy(postgres_server, name)


async def test_all_that_an_old_home_had_begun_ends_after_its_upgrade(
    restored: tuple[postgres.Addresses, Acknowledged], home_folder: Path
) -> None:
    addresses, known = restored
    listener, owner = (
        Listener(),
        await asyncpg.connect(addresses.owner_url, server_settings={"search_path": "pixconnect"}),
    )
    await owner.execute("update webhook_endpoint set url = $1", f"{listener.url}/{known.holder_id}")
    settings = dict(
        database_url=addresses.service_url,
        owner_database_url=addresses.owner_url,
        secret_key=SECRET_KEY,
        base_url=BASE_URL,
        api_processes_count="1",
    )
    try:
        with reserved_port() as port, running(home_folder, port=str(port), **settings):
            await check_that_all_ends(f"http://127.0.0.1:{port}", owner, known)
    finally:
        await owner.close()
        listener.close()
