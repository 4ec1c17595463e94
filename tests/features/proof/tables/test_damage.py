"""Every damage that a superuser can write into the books is found, by exactly the expected rules."""

import os
import sys
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.institutions.day_checks import judge_closed_days
from pixconnect.features.proof.service.verify import RULES, ProofRequest, verify
from pixconnect.features.proof.tables import look
from pixconnect.features.proof.tables.chain import CHAIN
from pixconnect.kernel.rules.proof import Finding
from support.all_books import AllBooks, open_all_books
from support.books import EVERYBODY
from support.damage import NEVER_RIGHT, Catalogue, plant, read_catalogue, sort_found, without_numbers
from support.multiplied_books import multiply
from support.postgres import Addresses, as_owner
from support.verifier import open_book_reader

ENTRIES = int(os.environ.get("PIXCONNECT_DAMAGE_ENTRIES", "100000"))
WHOLE = ProofRequest(extent="whole", again_after_s=0)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return read_catalogue()


@pytest.fixture
async def books(database: Addresses) -> AsyncIterator[AllBooks]:
    async with open_all_books(database) as opened:
        yield opened


@pytest.fixture
async def owner(books: AllBooks, database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    async with as_owner(database) as connection:
        yield connection


async def ask_everything(owner: asyncpg.Connection, books: AllBooks) -> list[Finding]:
    _, found = await judge_closed_days(owner, books.live.clock.now())
    for rule in RULES:
        if rule.of in ("holders", "installation"):
            found += await look.ask(owner, rule, EVERYBODY if rule.of == "holders" else None, None)
    return [each for each in found if each.rule not in NEVER_RIGHT]


async def test_each_damage_breaks_its_rules(books: AllBooks, owner: asyncpg.Connection, catalogue: Catalogue) -> None:
    await multiply(owner, books.holder_ids, len(catalogue.of_holders))
    assert await ask_everything(owner, books) == []
    await plant(owner, catalogue, books)
    found, besides = sort_found(await ask_everything(owner, books), catalogue)
    assert {kind.name: found[kind.name] for kind in catalogue.of_holders} == {
        kind.name: kind.rules for kind in catalogue.of_holders
    }
    assert without_numbers(besides) == without_numbers(catalogue.findings_of_installation)


def test_each_rule_finds_some_kind_of_damage(catalogue: Catalogue) -> None:
    kinds = [*catalogue.of_holders, *catalogue.of_installation]
    assert len({kind.name for kind in kinds}) == len(kinds) >= 80
    found_by = {rule for kind in catalogue.of_holders for rule in kind.rules}
    found_by |= {finding.split(":")[0] for kind in catalogue.of_installation for finding in kind.findings}
    # Damage to the server and the rail cannot be planted here: see tests/features/proof/service/test_comparison_with_rail.py.
    planted = {rule.name for rule in RULES if rule.of not in ("server", "rail")}
    # These books are not chained: tests/features/proof/service/test_verify_chain.py plants what the chain finds as well.
    planted -= {rule.name for rule in CHAIN}
    assert planted - found_by == NEVER_RIGHT & {"live_has_no_play_money"}


@pytest.mark.long
async def test_it_is_found_among_many_holders_too(
    books: AllBooks, owner: asyncpg.Connection, catalogue: Catalogue, database: Addresses
) -> None:
    # As an operator runs it: in slices of holders, by the role that may only read.
    of_each = await owner.fetchval("select count(*) from ledger_entry where holder_id = any ($1)", books.holder_ids)
    await multiply(owner, books.holder_ids, max(ENTRIES // of_each, len(catalogue.of_holders)))
    await plant(owner, catalogue, books)
    entries_count = await owner.fetchval("select count(*) from ledger_entry")
    async with open_book_reader(books.live, database) as reader:
        began = time.perf_counter()
        verification = await verify(reader, WHOLE, lambda *_: None)
        took_s = time.perf_counter() - began
    found, besides = sort_found(verification.findings, catalogue)
    assert found == {kind.name: kind.rules for kind in catalogue.of_holders}
    assert without_numbers(besides) == without_numbers(catalogue.findings_of_installation)
    kinds_count = len(catalogue.of_holders) + len(catalogue.of_installation)
    sys.stdout.write(
        f"\n{kinds_count} kinds of damage, {entries_count} entries of {verification.holders_count} holders: {took_s:.1f} s\n"
    )
