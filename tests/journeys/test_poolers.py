"""A pooler in front of PostgreSQL: one that shares sessions is refused with a reason, one that does not carries a payment."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from journeys.test_restore import go_on, work_and_be_killed
from support.home import SECRET_KEY, new_home
from support.installation import run_verb
from support.listener import Listener
from support.pooler import PROGRAM, open_pooler
from support.ports import reserved_port
from support.production_guide import prepared_server, settings_on

pytestmark = [
    pytest.mark.journey,
    pytest.mark.long,
    pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed: nothing is known of poolers here"),
]

SHARED = "after each transaction, but roles, prepared statements, advisory locks and LISTEN belong to a session"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can enter."""
    with new_home() as made:
        yield made


def through(settings: Mapping[str, str], address: str) -> dict[str, str]:
    """The same settings, with the pooler's address in those of the database."""
    return {
        name: urlsplit(value)._replace(netloc=f"{value.partition('://')[2].partition('@')[0]}@{address}", query="").geturl()
        if name.endswith("DATABASE_URL")
        else value
        for name, value in settings.items()
    }


def logins_of(settings: Mapping[str, str]) -> dict[str, str]:
    addresses = [urlsplit(value) for name, value in settings.items() if name.endswith("DATABASE_URL")]
    return {address.username or "": address.password or "" for address in addresses}


async def test_a_session_pooler_carries_a_payment_and_everything_else(folder: Path) -> None:
    listener = Listener()
    with new_home() as data, new_home() as first_home, new_home() as second_home, reserved_port() as port:
        async with prepared_server(data) as (_, server_url):
            direct = settings_on(server_url)
            # Nor is it told which settings of a session to pass.
            with open_pooler(server_url, logins_of(direct), folder, mode="session") as address:
                settings = through(direct, address)
                known = work_and_be_killed(first_home, port, settings, listener)
                # The test connects by a separate address.
                own = {"PIXCONNECT_OWNER_DATABASE_URL": direct["PIXCONNECT_OWNER_DATABASE_URL"]}
                await go_on(second_home, port, settings | own, known, listener)
    listener.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused_before_anything_is_written(folder: Path, mode: str) -> None:
    with new_home() as data, new_home() as home:
        async with prepared_server(data) as (_, server_url):
            direct = settings_on(server_url)
            migrated = run_verb(home, "migrate", **given(direct))
            assert migrated.returncode == 0, migrated.stderr
            with open_pooler(server_url, logins_of(direct), folder, mode=mode) as address:
                for verb in ("migrate", "serve", "work"):
                    refused = run_verb(home, verb, **given(through(direct, address)))
                    assert refused.returncode != 0, verb
                    assert SHARED in refused.stderr or "statement" in refused.stderr, (verb, refused.stderr)
                    assert "Traceback" not in refused.stderr


async def test_a_pooler_that_drops_a_sessions_role_is_refused(folder: Path) -> None:
    with new_home() as data, new_home() as home:
        async with prepared_server(data) as (_, server_url):
            direct = settings_on(server_url)
            ignored = "role,search_path,timezone,jit,default_transaction_isolation,enable_seqscan,enable_hashjoin"
            ignored += ",enable_mergejoin"
            ignored += ",lock_timeout,statement_timeout,idle_in_transaction_session_timeout,plan_cache_mode"
            ignored += ",tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count"
            with open_pooler(
                server_url, logins_of(direct), folder, mode="session", ignore_startup_parameters=ignored
            ) as address:
                refused = run_verb(home, "migrate", **given(through(direct, address)))
            assert refused.returncode != 0
            assert "out of its ignore_startup_parameters" in refused.stderr


def given(settings: Mapping[str, str]) -> dict[str, str]:
    names = ("database_url", "owner_database_url", "operator_database_url", "console_database_url")
    return {name: settings[f"PIXCONNECT_{name.upper()}"] for name in names} | dict(secret_key=SECRET_KEY)
