import asyncpg
import pytest

from pixconnect.adapters.secret_box import AesSecretBox
from pixconnect.adapters.system import SystemEntropy
from pixconnect.cli.frame import failures
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import migrate, upgrade_checks
from pixconnect.config import Settings
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.foundation import migrations, schema_history
from pixconnect.store.running import offending
from pixconnect.usecases.identity.signing_key import about_key
from pixconnect.usecases.running.installation import InstallationError
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


async def test_the_secret_key_of_another_installation_is_refused_before_anything_is_changed(
    database: postgres.Addresses,
) -> None:
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
    assert "no setting 'sslmod': look at what stands behind the ?" in (failures.explain(refusal.value) or "")


async def test_an_older_server_is_refused(database: postgres.Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    with pytest.raises(CommandError, match="pixconnect needs 16 or later"):
        await migrate.refuse_old_server(connection, 990_000)
    await connection.close()


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


def _name(letter: str, number: int) -> str:
    return f"'{letter}{number:031}'"


def _transfer(number: int, direction: str, cents: int, status: str = "CONFIRMED", **columns: str) -> str:
    """A transfer of holder 1, whose name has its number."""
    client = {"external_id": f"'{number}'", "fingerprint": "''"} if direction == "OUT" else {}
    values = {
        "id": str(number),
        "holder_id": "1",
        "direction": f"'{direction}'",
        "initiation_type": "'KEY'",
        "end_to_end_id": _name("E", number),
        "correlation_id": "gen_random_uuid()",
        "amount_cents": str(cents),
        "status": f"'{status}'",
        "counterparty": "'{}'",
        "slot": "0",
        "settled_at": "now()" if status == "CONFIRMED" else "null",
        "created_at": "now()",
        "modified_at": "now()",
        **client,
        **columns,
    }
    return f"insert into transfer ({', '.join(values)}) values ({', '.join(values.values())})"


def _refund(number: int, transfer_id: int, flow: str, cents: int, status: str = "RETURNED", **columns: str) -> str:
    client = {"external_id": f"'{number}'", "fingerprint": "''"} if flow == "OUT" else {}
    values = {
        "id": str(number),
        "holder_id": "1",
        "transfer_id": str(transfer_id),
        "flow": f"'{flow}'",
        "return_id": _name("D", number),
        "original_end_to_end_id": _name("E", transfer_id),
        "correlation_id": "gen_random_uuid()",
        "amount_cents": str(cents),
        "status": f"'{status}'",
        "reason": "'MD06'",
        "slot": "0",
        "settled_at": "now()" if status == "RETURNED" else "null",
        "created_at": "now()",
        "modified_at": "now()",
        **client,
        **columns,
    }
    return f"insert into refund ({', '.join(values)}) values ({', '.join(values.values())})"


def _order(name: str, number: int) -> str:
    return f"insert into open_order values ({name}, 1, {number}, 0, now(), now(), now())"


def _charge(number: int, columns: str = "") -> str:
    return f"""insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
        created_at, modified_at, expires_at {columns and ", contents, revision"})
        values ({number}, 1, '{number}', '', '{number:026}', 100, 'k', 'b', 'PENDING', 0, now(), now(), now() {columns})"""


WHOLE = [
    _transfer(50, "IN", 100, returned_cents="30", returning_cents="20"),
    _refund(50, 50, "OUT", 30),
    _refund(51, 50, "OUT", 20, "PROCESSING"),
    _order(_name("D", 51), 51),
    _transfer(52, "OUT", 100, "PROCESSING"),
    _order(_name("E", 52), 52),
    _transfer(53, "OUT", 100, is_book="true"),
    _transfer(54, "IN", 100, is_book="true", end_to_end_id=_name("E", 53), holder_id="2"),
    _transfer(55, "IN", 100, "ERROR", charge_id="1", outcome_code="'AM09'"),
    _charge(50, ", '{}', null"),
]
OFFENDING: dict[str, tuple[list[str], set[tuple[str, int]]]] = {
    "what was returned of it": ([_transfer(1, "IN", 100, returned_cents="5")], {("transfer", 1)}),
    "its name on the network is of one payment": (
        [_transfer(2, "IN", 700), _transfer(3, "IN", 700, holder_id="2", end_to_end_id=_name("E", 2))],
        {("transfer", 2), ("transfer", 3)},
    ),
    "its name on the network is of one return": (
        [
            _transfer(4, "OUT", 100, returned_cents="7"),
            _transfer(5, "OUT", 100, returned_cents="7", holder_id="2"),
            _refund(1, 4, "IN", 7),
            _refund(2, 5, "IN", 7, holder_id="2", return_id=_name("D", 1)),
        ],
        {("refund", 1), ("refund", 2)},
    ),
    "one name that goes out and comes in is of one amount": (
        [
            _transfer(6, "OUT", 500),
            _transfer(7, "IN", 501, end_to_end_id=_name("E", 6)),
            _transfer(8, "OUT", 500, returned_cents="8"),
            _transfer(9, "IN", 500, returned_cents="9"),
            _refund(3, 8, "IN", 8),
            _refund(4, 9, "OUT", 9, return_id=_name("D", 3)),
        ],
        {("transfer", 7), ("refund", 3)},
    ),
    "a name that was told later": (
        [
            _transfer(10, "OUT", 500, network_id=_name("E", 8)),
            _refund(5, 11, "OUT", 6, network_id=_name("D", 4)),
            _transfer(11, "IN", 500, returned_cents="14"),
            _refund(8, 11, "OUT", 8, return_id=_name("D", 4)),
        ],
        {("transfer", 10), ("refund", 5)},
    ),
    "while it is under way": (
        [
            _transfer(12, "OUT", 500, "PROCESSING"),
            _transfer(13, "IN", 500, returning_cents="9"),
            _refund(6, 13, "OUT", 9, "PROCESSING"),
        ],
        {("transfer", 12), ("refund", 6)},
    ),
    "it is of a transfer or refund that is under way": ([_order(_name("E", 404), 404)], {("open_order", 404)}),
    "it is called what": (
        [_transfer(14, "OUT", 500, "PROCESSING", network_id=_name("E", 1000)), _order(_name("E", 14), 14)],
        {("open_order", 14)},
    ),
    "when it has settled its charge": ([_charge(1), _transfer(15, "IN", 1, charge_id="1")], {("transfer", 15)}),
    "each of its revisions": ([_charge(2, ", '{}', 1")], {("charge", 2)}),
}


async def _plant(database: postgres.Addresses, version: int, statements: list[str]) -> asyncpg.Connection:
    """The tables as a version had them, with rows that no trigger has judged."""
    await _start_again(database)
    owner = await asyncpg.connect(database.owner_url)
    await schema_history.migrate(owner, "pixconnect", migrations.read_migrations("pixconnect.store")[:version])
    await owner.execute("set search_path = pixconnect; set session_replication_role = replica")
    for statement in statements:
        await owner.execute(statement)
    await owner.execute("set session_replication_role = origin")
    return owner


def _version_before() -> int:
    return _version_of(migrate.RULED_BY) - 1


def _version_of(name: str) -> int:
    return next(step.version for step in migrations.read_migrations("pixconnect.store") if step.name == name)


async def test_rows_that_break_a_new_rule_are_named_and_nothing_is_changed(
    database: postgres.Addresses, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row for _, rows in OFFENDING.values() for row in rows}
    owner = await _plant(database, _version_before(), WHOLE + [each for made, _ in OFFENDING.values() for each in made])
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    with pytest.raises(CommandError, match=f"rules of this version: {len(rows)}; nothing was changed: "):
        await migrate.bring_up_to_date(settings)
    assert await owner.fetchval("select max(version) from schema_version") == _version_before()
    said = capsys.readouterr().err.splitlines()
    for rule, (_, offending_rows) in OFFENDING.items():
        for table, number in offending_rows:
            named = [line for line in said if f": {table} {number} of holder " in line]
            assert [f"breaks a rule: {rule}" in line for line in named] == [True]
    assert len(said) == len(rows)
    # An operator who keeps them has the rules for all others.
    assert await migrate.bring_up_to_date(settings, keep_offending=True)
    listed = await owner.fetch("select table_name, id from offending_row")
    assert {tuple(row) for row in listed} == rows
    assert await migrate.bring_up_to_date(settings) == []
    with pytest.raises(asyncpg.UniqueViolationError):
        await owner.execute(_transfer(60, "IN", 700, end_to_end_id=_name("E", 50)).replace("700", "100"))
    for changed, passes in ((50, False), (1, True)):
        count = owner.execute(f"update transfer set returned_cents = returned_cents + 1 where id = {changed}")
        if passes:
            await count
        else:
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                await count
    # An order of nothing can be cleared away.
    await owner.execute("delete from open_order where resource_id = 404")
    await owner.close()


SPREAD = {
    "a home that knows another database": "insert into cell (number, name, address) values (1, 'two', 'postgresql://h/two')",
    "the other database": "insert into installation (mode, cell) values ('sandbox', 1)",
}


@pytest.mark.parametrize("what", SPREAD)
async def test_a_home_of_several_databases_is_refused_and_nothing_is_changed(
    database: postgres.Addresses, what: str
) -> None:
    owner = await _plant(database, _version_of("no_cells") - 1, [SPREAD[what]])
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    with pytest.raises(InstallationError, match="make a new home with `PIXCONNECT_HOME=FOLDER pixconnect run`"):
        await migrate.bring_up_to_date(settings)
    # Also where somebody runs the step by hand.
    with pytest.raises(asyncpg.RaiseError, match="more than one cell"):
        await schema_history.migrate(owner, "pixconnect", migrations.read_migrations("pixconnect.store"))
    await owner.execute("set search_path = pixconnect")
    assert await owner.fetchval("select max(version) from schema_version") == _version_of("no_cells") - 1
    assert await owner.fetchval("select to_regclass('key_cell') is not null")
    await owner.close()


async def test_a_home_of_one_database_is_brought_up_to_date(database: postgres.Addresses) -> None:
    owner = await _plant(database, _version_of("no_cells") - 1, ["insert into installation (mode) values ('sandbox')"])
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    assert "no_cells" in {migration.name for migration in await migrate.bring_up_to_date(settings)}
    assert await owner.fetchval("select mode from installation") == "sandbox"
    await owner.close()


async def test_a_database_of_the_first_tables_is_looked_at_too(database: postgres.Addresses) -> None:
    owner = await _plant(database, 4, [_transfer(1, "IN", 100, returned_cents="5")])
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    found = [finding.text for finding in await upgrade_checks._look_at_rows(owner)]
    assert found == [
        "rows of transfer that break a rule of this version: 1, the first is 1 of holder 1. "
        "The rule: what was returned of it, or is being returned, is the sum of its refunds"
    ]
    with pytest.raises(CommandError, match="rules of this version: 1;"):
        await migrate.bring_up_to_date(settings)
    await migrate.bring_up_to_date(settings, keep_offending=True)
    assert await owner.fetchval("select count(*) from offending_row") == 1
    await owner.close()


def test_each_rule_has_a_row_that_breaks_it() -> None:
    broken = [(table, text) for text, (_, rows) in OFFENDING.items() for table, _ in rows]
    assert all(
        any(rule.table == table and rule.says.startswith(text) for table, text in broken) for rule in offending.RULES
    )
