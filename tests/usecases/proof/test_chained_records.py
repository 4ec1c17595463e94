"""The chains of the audit and of kept reports, and the heads of all chains that leave: what only they can find."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence

import asyncpg
import pytest
from structlog.testing import capture_logs

from pixconnect.domain.money.kept_report import Misfit
from pixconnect.domain.proof.chain import HEADS_TOLD, ChainHead, digest_entry, digest_person, next_head, parse_heads
from pixconnect.domain.proof.rule import Finding
from pixconnect.store.proof import chain as chain_store
from pixconnect.store.proof import look
from pixconnect.store.proof.record_chain import RECORDS, count_unchained_records
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.money import kept_report as kept_usecases
from pixconnect.usecases.proof.chain import chain_records, list_heads, tell_heads
from support.books import chain_all
from support.operators import as_operator
from support.postgres import Addresses
from support.service import Service, credit_report, open_holder

BROKEN, CHANGED, _, UNCHAINED, KEPT = (*(rule.name for rule in RECORDS), chain_store.KEPT_HEADS.name)
_REWRITTEN = "update audit set after = '{{\"day_limit_cents\": 1}}' where id = {a2}"
_HASH_LINK_ANEW = """
    update record_chain set digest = made.digest, person_digest = made.person_digest from (
        select person_digest, sha256(convert_to(facts, 'UTF8') || person_digest) as digest from (
            select facts, sha256(salt || convert_to(person, 'UTF8')) as person_digest
            from record_facts join record_salt using (kind) where kind = 'audit' and id = {a2} and position = 2
        ) as salted
    ) as made where kind = 'audit' and position = 2
"""
_HEADS_ANEW = [
    "update record_chain as link set head = sha256(earlier.head || link.digest) from record_chain as earlier "
    f"where link.kind = 'audit' and earlier.kind = 'audit' and link.position = {place} and earlier.position = {place} - 1"
    for place in (2, 3, 4)
]
# What the owner does with every trigger off to rows a1 to a4 of the audit and to the reports r1 and r2, each a link; then what
# is found. What needs no other hashes is in tests/vectors/damage.toml.
DAMAGE: Mapping[str, tuple[Sequence[str], set[tuple[str, str]]]] = {
    "nothing": (["select 1"], set()),
    "a row": ([_REWRITTEN], {(CHANGED, "audit {a2}")}),
    "a row with its digest": ([_REWRITTEN, _HASH_LINK_ANEW], {(BROKEN, "audit link 2")}),
    "a row with its digest and head": ([_REWRITTEN, _HASH_LINK_ANEW, _HEADS_ANEW[0]], {(BROKEN, "audit link 3")}),
    "a row with all hashes behind it": ([_REWRITTEN, _HASH_LINK_ANEW, *_HEADS_ANEW], {(KEPT, "audit link 4")}),
    "the last row with its link": (
        ["delete from record_chain where kind = 'audit' and position = 4", "delete from audit where id = {a4}"],
        {(KEPT, "audit link 4")},
    ),
    "the last report with its link": (
        ["delete from kept_report where id = {r2}", "delete from record_chain where kind = 'report' and position = 2"],
        {(KEPT, "report link 2")},
    ),
    "all links, to be chained anew": (
        ["delete from record_chain", "delete from record_salt", "update record_chain_state set chained_id = 0"],
        {(KEPT, "audit link 4"), (KEPT, "report link 2")},
    ),
    "all links of entries, to be chained anew": (
        ["delete from entry_chain", "update entry_chain_state set chained_id = 0"],
        {(KEPT, "link 1"), (KEPT, "entries")},
    ),
}


@pytest.fixture
async def written(service: Service) -> Service:
    """A service with four acts of operators, two kept reports and a deposit, all of them chained."""
    await open_holder(service, funds_cents=1_000)
    for number in range(2):
        report = credit_report(service, account_number=str(number))
        await kept_usecases.keep(
            service.context.pool, report, Misfit(reason="unknown_order", explanation="we know none")
        )
    operator = as_operator(service.context, "ana")
    while len(await operator.pool.fetch("select from audit")) < 4:
        async with write_alone(operator.pool) as connection:
            await audit.record(operator, connection, "holder set", "holder 1", after=dict(day_limit_cents=5))
    await chain_all(service.context)
    return service


@pytest.fixture
async def owner(database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    yield connection
    await connection.close()


async def ask_all(owner: asyncpg.Connection, kept: Sequence[ChainHead] = ()) -> list[Finding]:
    found = [each for rule in RECORDS for each in await look.ask(owner, rule, None, None)]
    return found + await chain_store.compare_heads(owner, kept)


async def test_whoever_writes_hashes_anew_is_found_by_the_next_link_or_by_a_kept_head(
    written: Service, owner: asyncpg.Connection
) -> None:
    kept = await list_heads(owner)
    ids = {f"a{place}": row["id"] for place, row in enumerate(await owner.fetch("select id from audit order by id"), 1)}
    ids |= {
        f"r{place}": row["id"]
        for place, row in enumerate(await owner.fetch("select id from kept_report order by id"), 1)
    }
    for name, (statements, expected) in DAMAGE.items():
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute("set local session_replication_role = replica")
        for statement in statements:
            await owner.execute(statement.format(**ids))
        found = await ask_all(owner, kept)
        await transaction.rollback()
        assert {(each.rule, _name(each.ids)) for each in found} == {
            (rule, place.format(**ids)) for rule, place in expected
        }, name


def _name(ids: Sequence[str]) -> str:
    what, *where = ids
    return f"{what} {where[0]}" if what in ("audit", "report") else what


async def test_the_log_tells_heads_that_are_true_for_ever(written: Service, owner: asyncpg.Connection) -> None:
    with capture_logs() as logs:
        await tell_heads(written.context)
    (told_line,) = logs
    assert told_line["event"] == HEADS_TOLD
    told = parse_heads(json.dumps(line).encode() for line in ({"event": "health changed", "level": "info"}, told_line))
    assert [head.chain for head in told] == ["audit", "entries", "report"]
    # Whatever comes later, they stay true, and of the first one that is not it is told until when all was as it had been.
    await open_holder(written, account_number="2", funds_cents=500)
    await chain_all(written.context)
    later = await list_heads(owner)
    assert await ask_all(owner, told) == await ask_all(owner, later) == []
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        await owner.execute("update entry_chain set head = sha256('') where holder_id = (select max(id) from holder)")
        found = await chain_store.compare_heads(owner, [*told, *later])
        assert [each.ids[0] for each in found] == ["link 1", "entries"]
        assert found[1].since == next(head.chained_at for head in told if head.chain == "entries")


async def test_what_is_not_committed_yet_is_waited_for_and_nobody_waits_for_the_chain(
    written: Service, owner: asyncpg.Connection, database: Addresses
) -> None:
    late = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    insert = "insert into audit (operator, verb, subject) values ('ana', 'holder set', 'holder 1') returning id"
    try:
        async with late.transaction():
            late_id = await late.fetchval(insert)
            assert await owner.fetchval(insert) > late_id
            assert await chain_records(written.context) == 0
            # What comes meanwhile waits for no chain, and is chained with the next bound.
            assert await owner.fetchval(insert) > late_id
            assert await count_unchained_records(owner) == 2
        assert [await chain_records(written.context) for _ in range(3)] == [2, 1, 0]
    finally:
        await late.close()
    chained = await owner.fetch("select record_id from record_chain where kind = 'audit' order by position")
    assert [row["record_id"] for row in chained] == sorted(row["record_id"] for row in chained)
    assert await ask_all(owner) == []


async def test_rows_of_before_are_chained_some_at_a_time_and_by_one_at_once(
    written: Service, owner: asyncpg.Connection
) -> None:
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        await owner.execute("delete from record_chain")
        await owner.execute("delete from record_salt")
        await owner.execute("update record_chain_state set chained_id = 0, bound_id = 0")
    assert await count_unchained_records(owner) == 6
    assert [await chain_records(written.context, chained_max=3) for _ in range(3)] == [5, 1, 0]
    await owner.execute("insert into audit (operator, verb, subject) values ('ana', 'holder set', 'holder 1')")
    assert sum(await asyncio.gather(*(chain_records(written.context) for _ in range(8)))) == 1
    assert await ask_all(owner) == []


async def test_anybody_can_compute_the_chains_from_what_is_told_of_their_rows(
    written: Service, owner: asyncpg.Connection
) -> None:
    await owner.execute("""
        insert into audit (id, at, operator, verb, subject, after) overriding system value
        values (1000, '2026-07-01 12:00:00.25-03', 'ana', 'holder set', 'holder 1', '{"name": "João", "cents": 1}')
    """)
    assert await chain_records(written.context) == 1
    chained = await owner.fetch("""
        select link.*, salt, facts, person from record_chain as link
        join record_salt using (kind, position)
        join record_facts as stands on stands.kind = link.kind and stands.id = record_id
        order by link.kind, position
    """)
    head = {kind: hashlib.sha256(kind.encode()).digest() for kind in ("audit", "report")}
    for row in chained:
        person_digest = digest_person(row["salt"], row["person"])
        digest = digest_entry(row["facts"], person_digest)
        head[row["kind"]] = next_head(head[row["kind"]], [digest])
        assert (row["person_digest"], row["digest"], row["head"]) == (person_digest, digest, head[row["kind"]])
    # Neither form may ever change: heads that were written down stay true for ever.
    *_, last_of_audit, first_report, _ = chained
    assert last_of_audit["facts"] == '["audit", 1000, "2026-07-01T15:00:00.25", "holder set", null]'
    assert last_of_audit["person"] == '["ana", "holder 1", null, {"name": "João", "cents": 1}]'
    (kept,) = await owner.fetch("select * from kept_report where id = $1", first_report["record_id"])
    seen_at = kept["first_seen_at"].replace(tzinfo=None).isoformat()
    named = f'"credit", "unknown_order", "{kept["name"]}", "{kept["report_id"]}"'
    # PostgreSQL leaves out the zeros at the end of a second.
    assert re.sub(r"0+\"]$", '"]', f'["report", {kept["id"]}, {named}, null, "{seen_at}"]') == first_report["facts"]
    assert json.loads(first_report["person"]) == [kept["explanation"], kept["report"]]


async def test_links_are_only_added_and_the_service_adds_none(written: Service) -> None:
    for table in ("record_chain", "record_salt"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await written.execute_as_owner(f"delete from {table}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await written.fetch(f"insert into {table} select * from {table}")
