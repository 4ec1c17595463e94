"""Plant kinds of damage from ``tests/vectors/damage.toml`` in books, and return the findings about each."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from pixconnect.kernel.rules.proof import Finding
from support.all_books import AllBooks
from support.multiplied_books import SHIFT

NOW: Final = "timestamptz '2026-07-01 19:00:00+00'"  # an instant after most rows of the books
NEVER_RIGHT: Final = frozenset({"server_keeps_what_it_wrote", "live_has_no_play_money"})
"""Rules that every test server violates: it is not durable, and its login has the rights of a sandbox."""
_NUMBERED: Final = re.compile(r"\b(charge|transfer|refund|repayment|entry|event|order|refusal) [DE]?[0-9]\w*")


class KindOfHolders(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    sql: str
    rules: frozenset[str]  # the checks that must find it, and no others


class KindOfInstallation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    sql: str
    findings: frozenset[str]  # the exact findings: each rule, with the subject that it names


class Catalogue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: Mapping[str, str]
    of_holders: Sequence[KindOfHolders]
    of_installation: Sequence[KindOfInstallation]

    @property
    def findings_of_installation(self) -> frozenset[str]:
        return frozenset[str]().union(*(kind.findings for kind in self.of_installation))

    def statements(self, sql: str, **ids: int) -> list[str]:
        """The SQL that plants it. The short names of rows may refer to each other and, at the end, to holders."""
        while any(f"{{{name}}}" in sql for name in self.rows):
            for name, rows in self.rows.items():
                sql = sql.replace(f"{{{name}}}", rows)
        return [each.format(**ids, now=NOW) for each in sql.strip().split(";\n")]


def read_catalogue() -> Catalogue:
    file = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "damage.toml"
    return msgspec.toml.decode(file.read_bytes(), type=Catalogue)


async def plant(owner: asyncpg.Connection, catalogue: Catalogue, books: AllBooks) -> None:
    """Plant each kind of damage to holders in a copy of their own, and the other kinds in the one installation."""
    holders = dict(zip(("seller", "buyer", "debtor"), books.holder_ids, strict=True))
    await owner.execute("set session_replication_role = replica")
    for copy, kind in enumerate(catalogue.of_holders, 1):
        ids = {name: holder_id + copy * SHIFT for name, holder_id in holders.items()}
        await _plant(owner, kind.name, catalogue.statements(kind.sql, **ids))
    for kind in catalogue.of_installation:
        await _plant(owner, kind.name, catalogue.statements(kind.sql, house=books.shop.house.holder_id))
    await owner.execute("set session_replication_role = origin")


async def _plant(owner: asyncpg.Connection, name: str, statements: Iterable[str]) -> None:
    for statement in statements:
        done = await owner.execute(statement)
        assert not done.endswith(" 0"), f"{name}: {statement} meets no row"


def without_numbers(findings: Iterable[str]) -> Counter[str]:
    """Count the findings by kind without ids, because the ids of rows depend on the batches."""
    return Counter(_NUMBERED.sub(r"\1 #", each) for each in findings)


def sort_found(findings: Sequence[Finding], catalogue: Catalogue) -> tuple[dict[str, set[str]], set[str]]:
    """Return the findings of each kind of damage to holders, and the remaining findings."""
    by_name: dict[str, set[str]] = {kind.name: set() for kind in catalogue.of_holders}
    others = set[str]()
    for each in findings:
        copy = 0 if each.holder_id is None else each.holder_id // SHIFT
        if each.rule in NEVER_RIGHT:
            continue
        if 1 <= copy <= len(catalogue.of_holders):
            by_name[catalogue.of_holders[copy - 1].name].add(each.rule)
        else:
            others.add(f"{each.rule}: {' '.join(each.ids)}")
    return by_name, others
