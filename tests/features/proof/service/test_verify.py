"""The findings of a run over the books, and its continuation."""

import pytest
from msgspec import structs

from pixconnect.features.proof.service.rule_group import BookReader
from pixconnect.features.proof.service.verify import RULES, ProofRequest, Verification, check_books, verify
from pixconnect.features.proof.tables import run as run_store
from pixconnect.features.proof.tables.look import HOLDER_ID_MAX, SLICES_MAX, HolderRange, list_slices
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.proof import Extent
from pixconnect.platform.base import errors
from support.postgres import Addresses, as_owner
from support.service import Service
from support.verifier import open_book_reader

WHOLE = ProofRequest(extent="whole", again_after_s=0)
FOLLOWS = "balance_follows_last_entry"


async def test_nothing_is_found_in_books_that_are_right(service: Service, caller: Caller, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        found = await _verify(reader, WHOLE)
    assert found.findings == []
    assert found.holders_count == 1
    of_others = {rule.name for rule in RULES if rule.of in ("rail", "heads")}
    assert {each.rule for each in found.judgements if each.verdict != "checked"} == of_others


async def test_a_cent_too_much_is_found(service: Service, caller: Caller, database: Addresses) -> None:
    await _damage(database, "update balance set available_cents = available_cents + 1, settlement_cents = settlement_cents - 1")
    async with open_book_reader(service, database) as reader:
        found = await _verify(reader, WHOLE)
    finding, last = (next(each for each in found.findings if each.rule == name) for name in ("balance_is_sum", FOLLOWS))
    assert (finding.holder_id, finding.ids) == (caller.holder_id, ("balance",))
    assert (finding.expected, finding.found) == ("1000000 0 0 0 0 -1000000 0", "1000001 0 0 0 -1 -1000000 0")
    sums = [str(text).split(" ")[1:3] for text in (last.expected, last.found)]
    assert sums == [["1000000", "1000000"], ["1000000", "1000001"]]


async def test_large_books_have_larger_slices(service: Service, caller: Caller, database: Addresses) -> None:
    holders_count = 10 * SLICES_MAX
    await _damage(
        database,
        f"insert into statement_head (holder_id, last_number) select {caller.holder_id} + n, 5"
        f" from generate_series(1, {holders_count}) as n",
    )
    async with open_book_reader(service, database) as reader:
        slices = await list_slices(reader.connection, 0, 1)
        (whole,) = await list_slices(reader.connection, 0, 1_000_000)
    assert len(slices) <= SLICES_MAX + 1
    assert sum(part.holders_count for part in slices) == whole.holders_count == 1 + holders_count
    # No holder id lies between two slices, even one without a holder.
    assert [part.first_id for part in slices[1:]] == [part.last_id + 1 for part in slices[:-1]]
    assert (slices[0].first_id, slices[-1].last_id) == (whole.first_id, whole.last_id) == (1, HOLDER_ID_MAX)


async def test_a_rule_that_there_is_not_is_refused(service: Service, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        with pytest.raises(errors.BadRequest, match="rule: there is no rule sums"):
            await _verify(reader, ProofRequest(rules=["sums"]))


@pytest.mark.parametrize("extent", ["whole", "changes"])
async def test_a_stopped_run_begins_new(service: Service, caller: Caller, database: Addresses, extent: Extent) -> None:
    async with open_book_reader(service, database) as reader:
        await verify(reader, WHOLE, lambda *_: None)
        now = service.clock.now()
        run = await run_store.begin(reader.connection, extent, "who was interrupted", now)
        everybody = HolderRange(first_id=0, last_id=HOLDER_ID_MAX, holders_count=1)
        await run_store.note_slice(reader.connection, run, everybody, has_all_rules=True)
        await run_store.stop(reader.connection, run.id)
        await _damage(database, "update statement_head set last_number = last_number + 1")
        found = await _verify(reader, ProofRequest(extent=extent, again_after_s=0))
    assert [each.rule for each in found.findings] == [FOLLOWS]
    assert found.holders_count == 1


async def test_a_checkpoint_of_the_future_hides_nothing(service: Service, caller: Caller, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        await verify(reader, WHOLE, lambda *_: None)
        await _damage(
            database,
            "update verify.proof_checkpoint set read_until = read_until + interval '1 year'",
            "update ledger_entry set running_balance_cents = running_balance_cents + 1 where number is not null",
        )
        found = await _verify(reader, ProofRequest(again_after_s=0))
    assert "entries_follow_each_other" in {each.rule for each in found.findings}


async def _verify(reader: BookReader, request: ProofRequest) -> Verification:
    found = await verify(reader, request, lambda holders_count, found_count: None)
    # Servers of tests are forgetful on purpose.
    kept = [each for each in found.findings if each.rule != "server_keeps_what_it_wrote"]
    return structs.replace(found, findings=kept)


async def _damage(database: Addresses, *statements: str) -> None:
    async with as_owner(database) as connection:
        await connection.execute("set session_replication_role = replica")
        for statement in statements:
            await connection.execute(statement)


async def test_a_finding_degrades_health_until_a_new_run(service: Service, caller: Caller, database: Addresses) -> None:
    more, less = (f"update statement_head set last_number = last_number {sign} 1" for sign in "+-")
    by_name = ProofRequest(extent="whole", rules=["balance_is_sum"], again_after_s=0)
    async with open_book_reader(service, database) as reader:
        await _damage(database, more)
        await verify(reader, WHOLE, lambda *_: None)
        await _damage(database, less)
        for request in (by_name, ProofRequest(again_after_s=0)):
            await verify(reader, request, lambda *_: None)
            assert (await run_store.count_broken(service.context.pool))[FOLLOWS] == 1
        with pytest.raises(errors.ServiceUnavailable, match="pixconnect verify"):
            await check_books(service.context)
        await verify(reader, WHOLE, lambda *_: None)
    # Servers of tests are forgetful on purpose.
    assert await run_store.count_broken(service.context.pool) == dict(server_keeps_what_it_wrote=3)
    newest = await run_store.list_newest(service.context.pool, 9)
    assert [run.extent for run in newest] == ["whole", "changes", "whole", "whole"]
    assert await run_store.find_last_ended(service.context.pool, "whole") == newest[0]


async def test_changes_are_held_by_the_same_rules(service: Service, caller: Caller, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        first = await _verify(reader, WHOLE)
        second = await _verify(reader, ProofRequest(again_after_s=0))
    assert (first.findings, second.findings) == ([], [])
    left_out = {rule.name for rule in RULES if rule.is_of_whole_runs}
    assert {each.rule for each in first.judgements} - {each.rule for each in second.judgements} == left_out
