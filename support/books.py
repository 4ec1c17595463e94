"""What must hold of everything that is written, whatever happened before: the rules by which operators prove their books."""

from collections.abc import Sequence
from typing import Final

from pixconnect.domain.proof.rule import Finding
from pixconnect.foundation.pool import Connection
from pixconnect.store.proof.look import HOLDER_ID_MAX, HolderRange, ask
from pixconnect.store.proof.rules import RULES
from support.service import Service

_EVERYBODY: Final = HolderRange(first_id=1, last_id=HOLDER_ID_MAX, holders_count=0)


async def find_wrong(connection: Connection) -> Sequence[Finding]:
    return [
        finding
        for rule in RULES
        for finding in await ask(connection, rule, _EVERYBODY if rule.of == "holders" else None, None)
    ]


async def check_books(service: Service) -> None:
    """Fail with the rules that are broken and the rows that break them."""
    async with service.context.pool.acquire() as connection:
        found = await find_wrong(connection)
        told = [
            f"{each.rule}: {each.ids} of holder {each.holder_id}: expected {each.expected}, found {each.found}"
            for each in found
        ]
        assert not found, "\n".join(told)
