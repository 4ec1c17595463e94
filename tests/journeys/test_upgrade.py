"""Homes of earlier versions are upgraded with work in flight: all that they had acknowledged is there, and ends."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import asyncpg
import msgspec
import pytest

from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.running.migrate import bring_up_to_date
from pixconnect.config import PostgresVersion, Settings
from pixconnect.local.postgres_programs import find_programs
from support import postgres
from support.installation import PIXCONNECT, Installation, run_verb, running
from support.listener import Listener
from support.old_home import BASE_URL, BEFORE, COMMITS, DUMPS, SECRET_KEY, OldProgram, new_home
from support.ports import reserved_port
from support.waiting import PATIENCE_S, wait_until
from support.work_in_flight import Acknowledged, HolderOfHome, check_that_all_ends, put_work_in_flight

pytestmark = pytest.mark.long

_TRIES_MAX = 20


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
    try:
        settings = _settings(addresses)
        with reserved_port() as port, running(home_folder, port=str(port), **settings):
            await check_that_all_ends(f"http://127.0.0.1:{port}", owner, known)
            await asyncio.to_thread(check_that_all_is_proved, home_folder, settings)
    finally:
        await owner.close()
        listener.close()


def check_that_all_is_proved(home: Path, settings: dict[str, str]) -> None:
    """What no version of before has chained is chained, and nothing in the books breaks a rule."""

    def verify() -> dict[str, Any]:
        ended = run_verb(home, "verify", "--whole", "--again-after-s", "5", "--json", **settings)
        assert ended.returncode in (ExitStatus.DONE, ExitStatus.BROKEN), ended.stderr
        return json.loads(ended.stdout)

    def is_chained() -> bool:
        told = verify()
        return told["unchained"] == told["unchained_records"] == 0

    wait_until(is_chained, "all is chained")
    # Servers of tests are forgetful on purpose.
    found = [each for each in verify()["findings"] if each["rule"] != "server_keeps_what_it_wrote"]
    assert not found, found


_UNKNOWN_PARTITIONS = """
    select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent in (to_regclass('event'), to_regclass('delivery'))
        and relname not in (select name from event_partition)
"""


@pytest.mark.parametrize("commit", [*COMMITS, BEFORE])
async def test_processes_are_replaced_while_those_of_before_go_on(
    postgres_server: postgres.Addresses, commit: str, tmp_path: Path
) -> None:
    if not OldProgram.is_there(commit):
        pytest.skip(f"this copy of the repository lacks the history with {commit}: no whole upgrade was tried")
    addresses = await postgres.make_empty(postgres_server, f"rolling_{commit}")
    settings = _settings(addresses)
    listener, program = Listener(), OldProgram(commit, tmp_path)
    with new_home() as old_home, new_home() as home, reserved_port() as port, reserved_port() as new_port:
        with program.start(old_home, port=str(port), **settings) as old:
            url, new_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{new_port}"
            known = await asyncio.to_thread(put_work_in_flight, url, old.sandbox, listener.url)
            await bring_up_to_date(Settings(**_addresses(addresses)))
            owner = await asyncpg.connect(addresses.owner_url, server_settings={"search_path": "pixconnect"})
            # What is made ahead is used up, and the old worker makes more as it is used to.
            await owner.execute(f"select setval('delivery_id', {1 << 24}), setval('write_group_id', {1 << 34})")
            rail_url = json.loads((old_home / "running.json").read_text())["rail_url"]
            with Installation(home, (*PIXCONNECT, "serve"), port=str(new_port), rail_url=rail_url, **settings) as serve:
                serve.wait_for("ready")
                for number, base_url in enumerate((url, new_url, url)):
                    holder = _log_in(base_url, known)
                    body = dict(amount=5, key=old.sandbox["pix_keys"][0], external_id=f"meanwhile-{number}")
                    made = await asyncio.to_thread(holder.ask, "POST", "/v1/connect/charge", body)
                    known.charges[f"meanwhile-{number}"] = made["id"]
                if commit == COMMITS[0]:  # later ones ask the functions of the tables
                    await _wait_for(owner, f"select exists ({_UNKNOWN_PARTITIONS})")
        await owner.execute("update webhook_endpoint set url = $1", f"{listener.url}/{known.holder_id}")
        with running(home, port=str(port), **settings):
            await check_that_all_ends(f"http://127.0.0.1:{port}", owner, known)
            await _wait_for(owner, f"select not exists ({_UNKNOWN_PARTITIONS})")
        await owner.close()
    listener.close()
    await postgres.drop_copy(postgres_server, f"rolling_{commit}")


_OLDER_CLIENT = """
import sys
import pixconnect_client
from pixconnect_client import Client

assert pixconnect_client.__file__.startswith(sys.argv[1])
with Client(*sys.argv[2:5]) as client:
    charge = client.charges.create(100, sys.argv[5], external_id="asked")
    assert client.charges.create(100, sys.argv[5], external_id="asked").id == charge.id
    transfer = client.transfers.create_by_key(100, "settle@sandbox.pix.example", "EMAIL", external_id="sent")
    assert client.transfers.get(transfer.id).external_id == "sent"
    for listed in (client.charges, client.transfers, client.refunds, client.endpoints, client.events):
        next(iter(listed.list()), None)
    client.balance(), client.health(), client.identity.key_set()
"""


@pytest.mark.parametrize("commit", [COMMITS[-1], BEFORE])
def test_an_older_client_asks_this_server(home_folder: Path, commit: str, tmp_path: Path) -> None:
    if not OldProgram.is_there(commit):
        pytest.skip(f"this copy of the repository lacks the history with {commit}: no older client has asked")
    older = OldProgram(commit, tmp_path)
    with running(home_folder) as service:
        known = [service.sandbox[name] for name in ("base_url", "client_id", "client_secret")]
        words = older.python("-c", _OLDER_CLIENT, str(tmp_path), *known, service.sandbox["pix_keys"][0])
        ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr


def _log_in(base_url: str, known: Acknowledged) -> HolderOfHome:
    # The oldest answer 500 once a connection when a table was changed behind a statement that they had prepared.
    for _ in range(_TRIES_MAX):
        with suppress(AssertionError):
            return HolderOfHome(base_url, known.client_id, known.client_secret)
    pytest.fail(f"{base_url} lets nobody in")


async def _wait_for(owner: asyncpg.Connection, question: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not await owner.fetchval(question):
        assert time.monotonic() < deadline_s, question
        await asyncio.sleep(0.5)


def _addresses(addresses: postgres.Addresses) -> dict[str, str]:
    return dict(database_url=addresses.service_url, owner_database_url=addresses.owner_url)


def _settings(addresses: postgres.Addresses) -> dict[str, str]:
    return _addresses(addresses) | dict(secret_key=SECRET_KEY, base_url=BASE_URL, api_processes_count="1")
