"""The chain of entries: its parts, and every way to change history."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import asyncpg
from msgspec import structs

from pixconnect.features.proof.rules import ChainHead, digest_entry, digest_person, first_head, next_head
from pixconnect.features.proof.service.verify import ProofRequest, Verification, chain_entries, list_heads, show_entry, verify
from pixconnect.features.proof.tables.chain import CHAIN, KEPT_HEADS
from pixconnect.features.webhooks.service.feed import give_positions
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from support.books import chain_all, check_books
from support.postgres import Addresses
from support.service import Service, credit_report, movement_report, open_holder
from support.verifier import open_book_reader

RULES = [rule.name for rule in CHAIN]
ONLY_IN_HEADS = "somebody has rewritten history with all of its hashes"
# SQL of the owner, with every trigger off, on a holder {h} whose chain has the links [e1], [e2, e3] and [e4];
# e2 to e4 are of payments p2 to p4. Then the findings about that holder.
DAMAGE: Mapping[str, tuple[Sequence[str], set[tuple[str, str]]]] = {
    "an amount": (
        ["update ledger_entry set amount_cents = amount_cents + 1 where id = {e2}"],
        {("entries_are_as_chained", "e2")},
    ),
    "an instant": (
        ["update ledger_entry set created_at = created_at - interval '1 day' where id = {e1}"],
        {("entries_are_as_chained", "e1")},
    ),
    "what caused it": (
        ["update transfer set amount_cents = amount_cents + 1 where id = {p2}"],
        {("entries_are_as_chained", "e2")},
    ),
    "a deposit": (["update deposit set amount_cents = 1 where id = {e1}"], {("entries_are_as_chained", "e1")}),
    "a deposit that is lost": (["delete from deposit where id = {e1}"], {("entries_are_as_chained", "e1")}),
    "a name of the network": (
        ["update transfer set end_to_end_id = 'E0' || substr(end_to_end_id, 3) where id = {p3}"],
        {("entries_are_as_chained", "e3")},
    ),
    "a payer": (
        ["update transfer set counterparty = jsonb_set(counterparty, '{{tax_id}}', '\"52998224725\"') where id = {p2}"],
        {("entries_are_as_chained", "e2")},
    ),
    "a key": (["update transfer set own_key = 'another' where id = {p4}"], {("entries_are_as_chained", "e4")}),
    "an entry taken out": (["delete from ledger_entry where id = {e3}"], {("entries_are_as_chained", "e3")}),
    "an entry put in": (
        [
            "insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, cause_kind, "
            "cause_id, cause_state, created_at) "
            "values ({e2} + 1500, {h}, 'available', 'reserved', 1, 'transfer', {p2}, 'PROCESSING', now())"
        ],
        {("entries_are_chained_once", "put in")},
    ),
    "two entries exchanged": (
        [
            "update ledger_entry set id = 9007199254740991 where id = {e2}",
            "update ledger_entry set id = {e2} where id = {e3}",
            "update ledger_entry set id = {e3} where id = 9007199254740991",
        ],
        {("entries_are_as_chained", "e2"), ("entries_are_as_chained", "e3")},
    ),
    "a digest": (
        ["update entry_chain set digests[1] = sha256('') where holder_id = {h} and position = 2"],
        {("entries_are_as_chained", "e2"), ("chain_has_no_break", "link 2")},
    ),
    "a head": (
        ["update entry_chain set head = sha256('') where holder_id = {h} and position = 2"],
        {("chain_has_no_break", "link 2"), ("chain_has_no_break", "link 3")},
    ),
    "a link's order": (
        [
            "update entry_chain set entry_ids = array[entry_ids[2], entry_ids[1]], digests = array[digests[2], digests[1]], "
            "person_digests = array[person_digests[2], person_digests[1]] where holder_id = {h} and position = 2",
            "update person_salt set salts = array[salts[2], salts[1]] where holder_id = {h} and position = 2",
        ],
        {("chain_has_no_break", "link 2")},
    ),
    "a link taken out": (
        ["delete from entry_chain where holder_id = {h} and position = 2"],
        {("chain_has_no_break", "link 3"), ("entries_are_chained_once", "e2"), ("entries_are_chained_once", "e3")},
    ),
    "the last link taken out": (
        ["delete from entry_chain where holder_id = {h} and position = 3"],
        {("entries_are_chained_once", "e4"), (KEPT_HEADS.name, "link 3")},
    ),
    "a link put in": (
        [
            "insert into entry_chain select holder_id, 4, entry_ids, digests, person_digests, head, chained_at "
            "from entry_chain where holder_id = {h} and position = 3",
            "insert into person_salt select holder_id, 4, salts from person_salt where holder_id = {h} and position = 3",
        ],
        {("chain_has_no_break", "link 4"), ("entries_are_chained_once", "e4")},
    ),
    "two links exchanged": (
        [
            *(
                f"update {table} set position = {place} where holder_id = {{h}} and position = {position}"
                for table in ("entry_chain", "person_salt")
                for position, place in ((2, 9), (3, 2), (9, 3))
            )
        ],
        {("chain_has_no_break", "link 2"), ("chain_has_no_break", "link 3"), (KEPT_HEADS.name, "link 3")},
    ),
    "salts": (
        ["delete from person_salt where holder_id = {h} and position = 2"],
        {("entries_are_as_chained", "e2"), ("entries_are_as_chained", "e3")},
    ),
    "all that came last, as in an older backup": (
        ["delete from entry_chain where holder_id = {h} and position = 3", "delete from ledger_entry where id = {e4}"],
        {(KEPT_HEADS.name, "link 3")},
    ),
    ONLY_IN_HEADS: (["update ledger_entry set amount_cents = 1 where id = {e2}"], {(KEPT_HEADS.name, "link 3")}),
}


async def test_each_change_of_history_is_found_by_its_name_and_first_place(service: Service, database: Addresses) -> None:
    holders = {name: await open_holder(service, account_number=str(place)) for place, name in enumerate(DAMAGE, 1)}
    await _write_history(service, list(holders.values()))
    owner = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    expected = set[tuple[int, str, str]]()
    try:
        names = {name: await _name_entries(owner, holder.holder_id) for name, holder in holders.items()}
        async with open_book_reader(service, database) as reader:
            heads = await list_heads(reader.connection)
            before = await _verify(service, database, heads)
        assert (before.findings, before.unchained_count) == ([], 0)
        await owner.execute("set session_replication_role = replica")
        for name, (statements, found) in DAMAGE.items():
            for statement in statements:
                await owner.execute(statement.format(**names[name]))
            put_in = f"entry {names[name]['e2'] + 1500}"
            ids = {"put in": put_in} | {key: f"entry {value}" for key, value in names[name].items()}
            expected |= {(holders[name].holder_id, rule, ids.get(place, place)) for rule, place in found}
        await _hash_anew(owner, holders[ONLY_IN_HEADS].holder_id)
    finally:
        await owner.close()
    found = (await _verify(service, database, heads)).findings
    # The head of all holders together is another too.
    expected.add((0, KEPT_HEADS.name, "entries"))
    assert {(each.holder_id or 0, each.rule, each.ids[0]) for each in found} == expected


async def test_a_run_over_changes_begins_at_the_last(service: Service, caller: Caller, database: Addresses) -> None:
    await chain_all(service.context)
    async with open_book_reader(service, database) as reader:
        await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
        await take_reports(service.context, [credit_report(service)])
        await chain_all(service.context)
        await service.execute_without_guards("update transfer set payer_message = 'for another'")
        found = await verify(reader, ProofRequest(again_after_s=0), lambda *_: None)
    assert [each.ids[1] for each in found.findings if each.rule in RULES] == ["link 2"]


async def _write_history(service: Service, holders: Sequence[Caller]) -> None:
    await asyncio.gather(*(ledger_usecases.deposit(service.context, holder.holder_id, 10_000) for holder in holders))
    await chain_all(service.context)
    for payments in (2, 1):
        accounts = [str(place) for place, _ in enumerate(holders, 1) for _ in range(payments)]
        reports = [credit_report(service, account_number=account) for account in accounts]
        await take_reports(
            service.context, [structs.replace(each, report_id=f"{payments} {place}") for place, each in enumerate(reports)]
        )
        await chain_all(service.context)


async def _name_entries(owner: asyncpg.Connection, holder_id: int) -> dict[str, int]:
    rows = await owner.fetch("select id, cause_id from ledger_entry where holder_id = $1 order by id", holder_id)
    entries = {f"e{place}": row["id"] for place, row in enumerate(rows, 1)}
    payments = {f"p{place}": row["cause_id"] for place, row in enumerate(rows, 1)}
    return entries | payments | {"h": holder_id}


async def _hash_anew(owner: asyncpg.Connection, holder_id: int) -> None:
    head = first_head(holder_id)
    links = await owner.fetch("select * from entry_chain where holder_id = $1 order by position", holder_id)
    for link in links:
        facts = await owner.fetch(
            "select facts from unnest($1::bigint[]) with ordinality as listed (id, place) join entry_facts using (id) "
            "where holder_id = $2 order by place",
            link["entry_ids"],
            holder_id,
        )
        digests = [digest_entry(row["facts"], person) for row, person in zip(facts, link["person_digests"], strict=True)]
        head = next_head(head, digests)
        await owner.execute(
            "update entry_chain set digests = $1, head = $2 where holder_id = $3 and position = $4",
            *(digests, head, holder_id, link["position"]),
        )


async def _verify(service: Service, database: Addresses, heads: Sequence[ChainHead]) -> Verification:
    async with open_book_reader(service, database) as reader:
        request = ProofRequest(extent="whole", rules=RULES, again_after_s=0, heads=heads)
        return await verify(reader, request, lambda *_: None)


async def test_the_chain_can_be_computed_from_an_entry(service: Service, caller: Caller, database: Addresses) -> None:
    await take_reports(service.context, [credit_report(service)])
    await take_reports(service.context, [movement_report(service)])
    await check_books(service)
    async with open_book_reader(service, database) as reader:
        ids = await reader.connection.fetch("select id from ledger_entry order by id")
        told = [await show_entry(reader.connection, row["id"], caller.holder_id) for row in ids]
    assert [each.is_as_chained for each in told] == [True] * 3
    deposit, payment, fee = told
    assert (deposit.facts, deposit.person) == (
        f'["entry", {deposit.entry_id}, 1, "funding", "available", 1000000, 1, 1000000, "2026-07-01T15:00:00", '
        f'"deposit", {deposit.entry_id}, "MADE", [1000000]]',
        None,
    )
    assert fee.facts == (
        f'["entry", {fee.entry_id}, 1, "available", "settlement", 100, 3, 1000900, "2026-07-01T15:00:00.000002", '
        f'"movement", {fee.entry_id}, "POSTED", ["M1", "fee", "OUT", 100, 0, null]]'
    )
    assert fee.person == '["Tarifa"]'
    assert payment.person is not None
    assert payment.salt is not None
    assert '"Joana Prado"' in payment.person
    assert digest_person(payment.salt, payment.person) == payment.person_digest
    assert not structs.replace(payment, facts=fee.facts).is_as_chained
    assert not structs.replace(payment, person="[]").is_as_chained
    assert not structs.replace(payment, head=deposit.digest).is_as_chained


async def test_entries_of_before_are_chained_some_at_a_time_after_a_rest(service: Service, database: Addresses) -> None:
    for place in range(1, 6):
        await open_holder(service, account_number=str(place), funds_cents=100)
    assert (await _verify(service, database, ())).unchained_count == 5
    while (await give_positions(service.context)).has_more:
        pass
    # The bound is recorded first, and chained a minute later.
    assert await chain_entries(service.context) == await chain_entries(service.context) == 0
    chained = [await chain_entries(service.context, chained_max=2, rest=timedelta(0)) for _ in range(4)]
    assert chained == [2, 2, 1, 0]
    assert (await _verify(service, database, ())).unchained_count == 0


async def test_two_at_once_chain_nothing_twice(service: Service, caller: Caller, database: Addresses) -> None:
    await take_reports(service.context, [credit_report(service)])
    await give_positions(service.context)
    await chain_entries(service.context)
    chained = await asyncio.gather(*(chain_entries(service.context, chained_max=1, rest=timedelta(0)) for _ in range(8)))
    assert sum(chained) <= 2
    await check_books(service)
