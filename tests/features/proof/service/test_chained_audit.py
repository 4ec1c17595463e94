"""The chain of the audit, and the heads of all chains that are kept outside: findings that only they make possible."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence

import asyncpg
import pytest
from structlog.testing import capture_logs

from pixconnect.features.proof.rules import HEADS_TOLD, ChainHead, digest_entry, digest_person, next_head, parse_heads
from pixconnect.features.proof.service.verify import chain_audit, list_heads, log_heads
from pixconnect.features.proof.tables import chain as chain_store
from pixconnect.features.proof.tables import look
from pixconnect.features.proof.tables.chain import AUDIT_CHAIN, count_unchained_audit
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import write_alone
from pixconnect.kernel.rules.proof import Finding
from support.books import chain_all
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.service import Service, open_holder

BROKEN, CHANGED, _, KEPT = (*(rule.name for rule in AUDIT_CHAIN), chain_store.KEPT_HEADS.name)
_REWRITTEN = "update audit set after = '{{\"day_limit_cents\": 1}}' where id = {a2}"
_HASH_LINK_ANEW = """
    update audit_chain as link set digest = made.digest, person_digest = made.person_digest from (
        select position, person_digest, sha256(convert_to(facts, 'UTF8') || person_digest) as digest from (
            select position, facts, sha256(salt || convert_to(person, 'UTF8')) as person_digest
            from audit_facts join audit_chain on audit_id = id where id = {a2}
        ) as salted
    ) as made where made.position = link.position
"""
_HEADS_ANEW = [
    "update audit_chain as link set head = sha256(earlier.head || link.digest) from audit_chain as earlier "
    f"where link.position = {place} and earlier.position = {place} - 1"
    for place in (2, 3, 4)
]
# What the owner does, with every trigger off, to rows a1 to a4 of the audit, each a link; then what is found. What needs no
# other hashes is in tests/vectors/damage.toml.
DAMAGE: Mapping[str, tuple[Sequence[str], set[tuple[str, str]]]] = {
    "nothing": (["select 1"], set()),
    "a row": ([_REWRITTEN], {(CHANGED, "audit {a2}")}),
    "a row with its digest": ([_REWRITTEN, _HASH_LINK_ANEW], {(BROKEN, "link 2")}),
    "a row with its digest and head": ([_REWRITTEN, _HASH_LINK_ANEW, _HEADS_ANEW[0]], {(BROKEN, "link 3")}),
    "a row with all hashes behind it": ([_REWRITTEN, _HASH_LINK_ANEW, *_HEADS_ANEW], {(KEPT, "audit link 4")}),
    "the last row with its link": (
        ["delete from audit_chain where position = 4", "delete from audit where id = {a4}"],
        {(KEPT, "audit link 4")},
    ),
    "all links, to be chained anew": (
        ["delete from audit_chain", "update audit_chain_state set chained_id = 0"],
        {(KEPT, "audit link 4")},
    ),
    "all links of entries, to be chained anew": (
        ["delete from entry_chain", "update entry_chain_state set chained_id = 0"],
        {(KEPT, "link 1"), (KEPT, "entries")},
    ),
}


@pytest.fixture
async def written(service: Service) -> Service:
    """A service with four acts of operators and a deposit, all of them chained."""
    await open_holder(service, funds_cents=1_000)
    operator = as_operator(service.context, "ana")
    while len(await operator.pool.fetch("select from audit")) < 4:
        async with write_alone(operator.pool) as connection:
            await audit.record(operator, connection, "holder set", "holder 1", after=dict(day_limit_cents=5))
    await chain_all(service.context)
    return service


@pytest.fixture
async def owner(database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    async with as_owner(database) as connection:
        yield connection


async def ask_all(owner: asyncpg.Connection, kept: Sequence[ChainHead] = ()) -> list[Finding]:
    found = [each for rule in AUDIT_CHAIN for each in await look.ask(owner, rule, None, None)]
    return found + await chain_store.compare_heads(owner, kept)


async def test_whoever_writes_hashes_anew_is_found_by_the_next_link_or_by_a_kept_head(
    written: Service, owner: asyncpg.Connection
) -> None:
    kept = await list_heads(owner)
    ids = {f"a{place}": row["id"] for place, row in enumerate(await owner.fetch("select id from audit order by id"), 1)}
    for name, (statements, expected) in DAMAGE.items():
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute("set local session_replication_role = replica")
        for statement in statements:
            await owner.execute(statement.format(**ids))
        found = await ask_all(owner, kept)
        await transaction.rollback()
        assert {(each.rule, _name(each.ids)) for each in found} == {(rule, place.format(**ids)) for rule, place in expected}, (
            name
        )


def _name(ids: Sequence[str]) -> str:
    what, *where = ids
    return f"{what} {where[0]}" if what == "audit" else what


async def test_the_log_tells_heads_that_are_true_for_ever(written: Service, owner: asyncpg.Connection) -> None:
    with capture_logs() as logs:
        await log_heads(written.context)
    (told_line,) = logs
    assert told_line["event"] == HEADS_TOLD
    told = parse_heads(json.dumps(line).encode() for line in ({"event": "health changed", "level": "info"}, told_line))
    assert [head.chain for head in told] == ["audit", "entries"]
    # Later rows leave them true, and the first false one is reported with the time until which all was unchanged.
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


async def test_an_open_commit_is_waited_for(written: Service, owner: asyncpg.Connection, database: Addresses) -> None:
    late = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    insert = "insert into audit (operator, verb, subject) values ('ana', 'holder set', 'holder 1') returning id"
    try:
        async with late.transaction():
            late_id = await late.fetchval(insert)
            assert await owner.fetchval(insert) > late_id
            assert await chain_audit(written.context) == 0
            # Rows written meanwhile do not wait for the chain, and are chained with the next bound.
            assert await owner.fetchval(insert) > late_id
            assert await count_unchained_audit(owner) == 2
        assert [await chain_audit(written.context) for _ in range(3)] == [2, 1, 0]
    finally:
        await late.close()
    chained = await owner.fetch("select audit_id from audit_chain order by position")
    assert [row["audit_id"] for row in chained] == sorted(row["audit_id"] for row in chained)
    assert await ask_all(owner) == []


async def test_earlier_rows_are_chained_some_at_a_time_by_one(written: Service, owner: asyncpg.Connection) -> None:
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")
        await owner.execute("delete from audit_chain")
        await owner.execute("update audit_chain_state set chained_id = 0, bound_id = 0")
    assert await count_unchained_audit(owner) == 4
    assert [await chain_audit(written.context, chained_max=3) for _ in range(3)] == [3, 1, 0]
    await owner.execute("insert into audit (operator, verb, subject) values ('ana', 'holder set', 'holder 1')")
    assert sum(await asyncio.gather(*(chain_audit(written.context) for _ in range(8)))) == 1
    assert await ask_all(owner) == []


async def test_anybody_can_compute_the_chain_from_its_rows(written: Service, owner: asyncpg.Connection) -> None:
    await owner.execute("""
        insert into audit (id, at, operator, verb, subject, after) overriding system value
        values (1000, '2026-07-01 12:00:00.25-03', 'ana', 'holder set', 'holder 1', '{"name": "João", "cents": 1}')
    """)
    assert await chain_audit(written.context) == 1
    chained = await owner.fetch("select * from audit_chain join audit_facts on id = audit_id order by position")
    head = hashlib.sha256(b"audit").digest()
    for row in chained:
        person_digest = digest_person(row["salt"], row["person"])
        digest = digest_entry(row["facts"], person_digest)
        head = next_head(head, [digest])
        assert (row["person_digest"], row["digest"], row["head"]) == (person_digest, digest, head)
    # This form never changes: heads that were written down stay true for ever.
    facts = '["audit", 1000, "2026-07-01T15:00:00.25", "holder set", null, "pixconnect_owner", "none"]'
    assert chained[-1]["facts"] == facts
    assert chained[-1]["person"] == '["ana", "holder 1", null, {"name": "João", "cents": 1}]'


async def test_heads_of_the_removed_chain_of_reports_are_ignored(written: Service, owner: asyncpg.Connection) -> None:
    line = f'{{"chain":"report","position":3,"head":"{"a" * 64}","chained_at":"2026-07-01T12:00:00Z"}}'
    assert await chain_store.compare_heads(owner, parse_heads([line.encode()])) == []


async def test_links_are_only_added_and_the_service_adds_none(written: Service) -> None:
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await written.execute_as_owner("delete from audit_chain")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await written.fetch("insert into audit_chain select * from audit_chain")
