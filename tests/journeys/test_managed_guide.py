"""The guide to managed servers: its commands as printed, by an administrator and an owner without superuser rights."""

import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import structlog

from journeys.test_restore import go_on, run_block, work_and_be_killed
from pixconnect.platform.config import POSTGRES_VERSIONS, PostgresVersion
from support.home import SECRET_KEY, new_home
from support.installation import ROOT, run_verb
from support.listener import Listener
from support.managed_server import ADMINISTRATOR, HOST, open_managed_server, open_name, url_of
from support.ports import reserved_port
from support.production_guide import LOGINS, SETTINGS, UNITS, blocks, variables
from support.standby import open_pair
from support.tls import Authority

pytestmark = [pytest.mark.journey, pytest.mark.long]

_log = structlog.get_logger(__name__)
GUIDE = (ROOT / "docs" / "guides" / "managed-postgresql.md").read_text(encoding="utf-8")
MAKE_LOGINS, MIGRATE, DUMP, RESTORE, RECOVERED = blocks("sh", GUIDE)


def settings_at(port: int, authority: Path, host: str = HOST) -> dict[str, str]:
    """The settings of all parts, each with its login."""
    found = {name: value for file in SETTINGS for name, value in variables(file).items()}
    del found["PIXCONNECT_VERIFY_DATABASE_URL"]
    return {
        name: url_of(urlsplit(value).netloc.rpartition("@")[0], port, authority, host=host)
        if name.endswith("DATABASE_URL")
        else value
        for name, value in found.items()
    }


def settings_by(socket_folder: str) -> dict[str, str]:
    """The same without TLS, which the wheel's psql, pg_dump and pg_restore lack."""
    return {
        name: f"{value.partition('@')[0]}@/pixconnect?host={socket_folder}" if name.endswith("DATABASE_URL") else value
        for name, value in settings_at(0, Path()).items()
    } | {"ADMINISTRATOR_URL": f"postgresql://{ADMINISTRATOR}@/postgres?host={socket_folder}"}


async def look_for_superusers(settings: Mapping[str, str]) -> list[str]:
    owner = await asyncpg.connect(settings["PIXCONNECT_OWNER_DATABASE_URL"])
    try:
        rows = await owner.fetch(
            "select rolname from pg_roles where rolname ~ '^(pix_|pixconnect_)' and rolsuper and rolname <> 'pixconnect_owner'"
        )
        assert not await owner.fetchval(
            "select rolsuper or rolcreatedb or rolreplication from pg_roles where rolname = 'pix_owner'"
        )
        return [row["rolname"] for row in rows]
    finally:
        await owner.close()


@pytest.mark.parametrize("version", POSTGRES_VERSIONS)
async def test_an_installation_works_fails_over_and_is_restored(tmp_path: Path, version: PostgresVersion) -> None:
    listener, authority = Listener(), Authority(tmp_path)
    ca, logins, dump = tmp_path / "ca.pem", UNITS / "logins.sql", tmp_path / "nightly.dump"
    assert logins.read_text() == LOGINS
    with (
        new_home() as one,
        new_home() as other,
        new_home() as first_home,
        new_home() as second_home,
        open_name(authority.server_context(HOST)) as name,
        reserved_port() as port,
    ):
        settings = settings_at(name.port, ca)
        named = dict(LOGINS=str(logins), DUMP=str(dump))
        async with open_managed_server(one, version) as (first, programs), open_managed_server(other, version) as (second, _):
            name.lead_to(first)
            run_block(MAKE_LOGINS, settings_by(first), tmp_path, programs, **named)
            assert f"{version}." in run_block(MIGRATE, settings, tmp_path, programs).stdout
            assert await look_for_superusers(settings) == []
            known = work_and_be_killed(first_home, port, settings, listener)
            run_block(DUMP, settings_by(first), tmp_path, programs, **named)
            began_s = time.monotonic()
            name.lead_to(second)
            run_block(MAKE_LOGINS, settings_by(second), tmp_path, programs, **named)
            run_block(RESTORE, settings_by(second), tmp_path, programs, **named)
            took_s, size_mb = time.monotonic() - began_s, dump.stat().st_size / 1e6
            _log.info("restored and proved", took_s=round(took_s), size_mb=round(size_mb, 1))
            await go_on(second_home, port, settings, known, listener)
            run_block(RECOVERED, settings, tmp_path, programs)
    listener.close()


async def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path: Path) -> None:
    authority, ca = Authority(tmp_path), tmp_path / "ca.pem"
    (tmp_path / "other").mkdir()
    Authority(tmp_path / "other")
    with new_home() as one, new_home() as home, open_name(authority.server_context(HOST)) as name:
        async with open_managed_server(one, POSTGRES_VERSIONS[-1]) as (server, programs):
            name.lead_to(server)
            settings = settings_at(name.port, ca)
            logins = UNITS / "logins.sql"
            run_block(MAKE_LOGINS, settings_by(server), tmp_path, programs, LOGINS=str(logins))

            def refuse(says: str, url: str) -> None:
                refused = run_verb(home, "migrate", owner_database_url=url, database_url=url)
                assert refused.returncode != 0
                assert says in refused.stderr, refused.stderr
                assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr

            owner, app = (
                urlsplit(settings[f"PIXCONNECT_{name}DATABASE_URL"]).netloc.rpartition("@")[0] for name in ("OWNER_", "")
            )
            refuse("certificate is not the one that was expected", url_of(owner, name.port, ca, host="127.0.0.1"))
            refuse("certificate is not the one that was expected", url_of(owner, name.port, tmp_path / "other" / "ca.pem"))
            refuse("a role that owns the tables and may make roles", url_of(app, name.port, ca))


async def test_a_standby_named_as_primary_is_refused() -> None:
    async with open_pair(waits=False) as (_, _addresses, standby):
        with new_home() as home:
            for verb in ("migrate", "serve"):
                url = standby.addresses.owner_url
                refused = run_verb(home, verb, database_url=url, owner_database_url=url, secret_key=SECRET_KEY)
                assert refused.returncode != 0
                assert "the database only reads" in refused.stderr, refused.stderr
