"""What a run over the books finds, and how it goes on."""

import asyncpg
import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.store.proof.rules import RULES
from pixconnect.usecases.proof.verify import BookReader, ProofRequest, Verification, verify
from support.postgres import Addresses
from support.service import Service
from support.verifier import open_book_reader

WHOLE = ProofRequest(extent="whole", again_after_s=0)


async def test_nothing_is_found_in_books_that_are_right(service: Service, caller: Caller, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        found = await _verify(reader, WHOLE)
    assert found.findings == []
    assert found.holders_count == 1
    assert {each.verdict for each in found.judgements} == {"checked"}


async def test_a_balance_of_a_cent_more_is_found_with_both_sides(
    service: Service, caller: Caller, database: Addresses
) -> None:
    await _damage(
        database, "update balance set available_cents = available_cents + 1, settlement_cents = settlement_cents - 1"
    )
    async with open_book_reader(service, database) as reader:
        found = await _verify(reader, WHOLE)
    (finding,) = [each for each in found.findings if each.rule == "balance_is_sum"]
    assert (finding.holder_id, finding.ids) == (caller.holder_id, ("balance",))
    assert (finding.expected, finding.found) == ("1000000 0 0 0 -1000000", "1000001 0 0 -1 -1000000")


async def test_a_rule_that_there_is_not_is_refused(service: Service, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        with pytest.raises(errors.BadRequest, match="rule: there is no rule sums"):
            await _verify(reader, ProofRequest(rules=["sums"]))


async def _verify(reader: BookReader, request: ProofRequest) -> Verification:
    return await verify(reader, request, lambda holders_count, found_count: None)


async def _damage(database: Addresses, *statements: str) -> None:
    """Write as nobody can but the owner, and with every trigger off."""
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await connection.execute("set session_replication_role = replica")
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_what_has_changed_is_looked_at_by_the_same_rules(
    service: Service, caller: Caller, database: Addresses
) -> None:
    async with open_book_reader(service, database) as reader:
        first = await _verify(reader, WHOLE)
        second = await _verify(reader, ProofRequest(again_after_s=0))
    assert (first.findings, second.findings) == ([], [])
    left_out = {rule.name for rule in RULES if rule.is_of_whole_runs}
    assert {each.rule for each in first.judgements} - {each.rule for each in second.judgements} == left_out
