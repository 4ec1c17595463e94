"""An account at an institution is in one cell, under one name, whoever adds it where and whoever dies on the way."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.institutions.account import Credential
from pixconnect.store.institutions import account as account_store
from pixconnect.store.running import name_cell as name_store
from pixconnect.usecases.frame.cells import NO_ANSWER
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions import account_naming
from pixconnect.usecases.institutions.account_naming import CellAccounts, naming_alone
from pixconnect.usecases.running.name_sweep import NameSweep
from support.cells import NUMBER
from support.dying import KilledError, die
from support.fake_institution import a_description
from support.live_cells import LiveCells, open_live_cells
from support.postgres import Addresses

OTHER = dict(keys=["banco@test.example"], receiving=Credential(client_id="branch"))


@pytest.fixture
async def two(database: Addresses, other_database: Addresses) -> AsyncIterator[LiveCells]:
    async with open_live_cells(database, other_database) as made:
        yield made


async def find(two: LiveCells, name: str) -> int | None:
    return await account_naming.find_cell_of(two.operators[HOME], name)


async def list_names(two: LiveCells, number: int) -> list[str]:
    return [one.account.name for one in await account_usecases.list_institutions(two.operators[number])]


async def sweep(two: LiveCells) -> None:
    sweep = NameSweep(two.services[HOME].context.pool, timedelta(0))
    while await sweep.sweep(NUMBER, two.services[NUMBER].context.pool):
        pass


async def test_an_account_is_in_the_cell_of_its_house_and_found_by_its_name(two: LiveCells) -> None:
    there = await two.add(NUMBER, "loja")
    here = await two.add(HOME, "banco", **OTHER)
    assert (await find(two, "loja"), await find(two, "banco"), await find(two, "nobody")) == (NUMBER, HOME, None)
    assert (there.id, here.id) == (1, 1), "each cell numbers its own"
    assert (await list_names(two, NUMBER), await list_names(two, HOME)) == (["loja"], ["banco"])


async def test_a_name_is_one_accounts_in_all_cells(two: LiveCells) -> None:
    await two.add(NUMBER, "loja")
    await two.add(HOME, "banco", **OTHER)
    third = dict(keys=["third@test.example"], receiving=Credential(client_id="third"))
    for number, name in ((HOME, "loja"), (NUMBER, "banco")):
        with pytest.raises(errors.BadRequest, match=f"there is an account {name} in another cell"):
            await two.add(number, name, house=await two.open_owner(number, "77" + name.upper()), **third)


async def test_a_bank_account_is_in_one_cell_whatever_it_is_called(two: LiveCells) -> None:
    await two.add(NUMBER, "loja", account="77")
    house = await two.open_owner(HOME, "1")
    for shared in (
        {},
        dict(OTHER, keys=["loja@test.example"]),
        dict(OTHER, account="77"),
        dict(keys=["banco@test.example"], account=""),
    ):
        with pytest.raises(errors.BadRequest, match="is on the account loja: a bank account is added once"):
            await two.add(HOME, "banco", house=house, **shared)
    await two.add(HOME, "banco", house=house, **OTHER)
    # Nor does one become it later.
    said = a_description(keys=["loja@test.example"], receiving=Credential(client_id="branch"))
    with pytest.raises(errors.BadRequest, match=r"keys: loja@test\.example is on the account loja"):
        await account_usecases.rotate_account(two.operators[HOME], "banco", said, two.compare_in(HOME))
    assert (await account_usecases.read_account(two.operators[HOME], "banco")).account.keys == ["banco@test.example"]


@pytest.mark.parametrize("number", [HOME, NUMBER])
async def test_a_bank_account_is_in_one_cell_however_its_address_is_written(two: LiveCells, number: int) -> None:
    await two.add(NUMBER, "loja", base_url="https://pix.example")
    house = await two.open_owner(number, "1")
    for base_url in ("https://pix.example:443", "https://PIX.example/", "https://pix.example.:443/"):
        with pytest.raises(errors.BadRequest, match="client_id: us is on the account loja"):
            await two.add(number, "banco", house=house, base_url=base_url, keys=[])
    await two.add(number, "banco", house=house, base_url="https://pix.example:8443", keys=[])


@pytest.mark.parametrize("number", [HOME, NUMBER])
@pytest.mark.parametrize("is_first_sealed", [True, False])
async def test_a_bank_account_is_in_one_cell_wherever_its_secret_is_kept(
    two: LiveCells, tmp_path: Path, number: int, is_first_sealed: bool
) -> None:
    (tmp_path / "app").write_text("an app\n")
    (tmp_path / "same").write_text("an app")
    (tmp_path / "another").write_text("another app")
    woovi = dict(kind="woovi", profile="woovi")
    sealed = Credential(client_secret="an app")
    in_file, in_another = (Credential(client_secret_file=str(tmp_path / name)) for name in ("app", "same"))
    await two.add(NUMBER, "loja", **woovi, receiving=sealed if is_first_sealed else in_another)
    house = await two.open_owner(number, "1")
    for receiving in (sealed, in_file):
        with pytest.raises(errors.BadRequest, match="client_secret_file: what is in it is on the account loja"):
            await two.add(number, "banco", house=house, **woovi, keys=[], receiving=receiving)
    missing = Credential(client_secret_file=str(tmp_path / "missing"))
    with pytest.raises(errors.BadRequest, match=r"nobody knows whether banco and loja are one account: .*missing"):
        await two.add(number, "banco", house=house, **woovi, keys=[], receiving=missing)
    other = Credential(client_secret_file=str(tmp_path / "another"))
    await two.add(number, "banco", house=house, **woovi, keys=[], receiving=other)


async def test_while_a_cell_that_may_have_it_is_away_nothing_is_added(two: LiveCells) -> None:
    for number, other in ((HOME, NUMBER), (NUMBER, HOME)):
        two.away.add(other)
        with pytest.raises(errors.ServiceUnavailable, match="gives no answer, so nothing was done"):
            await two.add(number, "loja")
        two.away.clear()
        assert await list_names(two, number) == []
    assert await find(two, "loja") is None


async def test_all_cells_are_of_one_environment(two: LiveCells) -> None:
    await two.add(NUMBER, "loja", environment="homologation")
    assert [row["environment"] for row in await two.services[HOME].fetch("select environment from installation")] == [
        "homologation"
    ]
    with pytest.raises(errors.BadRequest, match="this installation is of homologation"):
        await two.add(HOME, "banco", **OTHER)


async def test_only_one_is_added_at_a_time(two: LiveCells) -> None:
    async with naming_alone(two.operators[HOME]):
        with pytest.raises(errors.ServiceUnavailable, match="somebody else is adding"):
            await two.add(NUMBER, "loja")
    added = await asyncio.gather(two.add(NUMBER, "loja"), two.add(HOME, "banco"), return_exceptions=True)
    assert sum(isinstance(one, errors.PixConnectError) for one in added) >= 1
    assert len([*await list_names(two, HOME), *await list_names(two, NUMBER)]) <= 1


async def test_whoever_loses_the_lock_adds_nothing(two: LiveCells) -> None:
    async def lose_the_lock(ask: object) -> Mapping[str, str]:
        await two.services[HOME].execute_as_owner(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = "
            "(select oid from pg_database where datname = current_database())"
        )
        return {}

    house = await two.open_owner(NUMBER, "1")
    with pytest.raises(NO_ANSWER):
        await account_usecases.add_account(
            two.operators[NUMBER],
            two.there[NUMBER].open,
            "loja",
            a_description(),
            house,
            others=CellAccounts(ask_others=lose_the_lock),
        )
    assert await list_names(two, NUMBER) == []


async def test_whoever_dies_on_the_way_is_gone_on_from_and_leaves_no_name(
    two: LiveCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await two.open_owner(NUMBER, "1")
    for where, name, options in (
        (account_store, "find_named", dict(call=2)),
        (name_store, "claim", {}),
        (account_store, "take_environment", {}),
        (account_store, "insert", {}),
    ):
        with monkeypatch.context() as patch:
            die(where, name, patch, **options)
            with pytest.raises(KilledError):
                await two.add(NUMBER, "loja", house=house)
        assert await list_names(two, NUMBER) == []
    # Its name is nobody else's meanwhile.
    with pytest.raises(errors.BadRequest, match="there is an account loja"):
        await two.add(HOME, "loja")
    await two.add(NUMBER, "loja", house=house)
    await sweep(two)
    assert await find(two, "loja") == NUMBER


async def test_a_name_that_came_to_nothing_or_was_removed_is_free_again(
    two: LiveCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        die(account_store, "insert", patch)
        with pytest.raises(KilledError):
            await two.add(NUMBER, "loja")
    await sweep(two)
    assert await find(two, "loja") is None
    await two.add(HOME, "loja")
    assert await find(two, "loja") == HOME


async def test_a_home_cell_that_was_put_back_learns_what_another_has(two: LiveCells) -> None:
    await two.add(NUMBER, "loja")
    await two.services[HOME].execute_as_owner("delete from institution_cell")
    with pytest.raises(errors.BadRequest, match="there is an account loja in another cell"):
        await two.add(HOME, "loja", **OTHER)
    assert await account_naming.has_account(two.operators[NUMBER], "loja")
    await sweep(two)
    assert await find(two, "loja") == NUMBER


async def test_whoever_adds_waits_for_a_commit_whose_verb_has_died(two: LiveCells) -> None:
    house = await two.open_owner(HOME, "1")
    async with two.services[NUMBER].context.pool.acquire() as connection:
        # As a COMMIT does that waits for a standby.
        async with connection.transaction():
            await account_store.name_alone(connection)
            with pytest.raises(errors.ServiceUnavailable, match="an account is being added or changed there"):
                await two.add(HOME, "banco", house=house)
        assert await list_names(two, HOME) == []
    await two.add(HOME, "banco", house=house)
