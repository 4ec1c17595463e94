"""Rules for everything in the tables, by the checks of ``pixconnect verify``."""

from datetime import timedelta
from typing import Final

from pixconnect.features.proof.service.verify import RULES, chain_audit, chain_entries
from pixconnect.features.proof.tables import look
from pixconnect.features.proof.tables.look import HOLDER_ID_MAX, HolderRange
from pixconnect.features.webhooks.service.feed import give_positions
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.pool import Connection
from support.postgres import Copy
from support.service import Service

EVERYBODY: Final = HolderRange(first_id=0, last_id=HOLDER_ID_MAX, holders_count=0)


async def find_wrong(connection: Connection) -> list[str]:
    """Return everything in the books that violates a rule, in words."""
    return [
        f"{rule.says}: {', '.join(found.ids)} of holder {found.holder_id}: {found.found}, not {found.expected}"
        for rule in RULES
        if rule.of == "holders"
        for found in await look.ask(connection, rule, EVERYBODY, None)
    ]


async def chain_all(context: Context) -> None:
    """Chain the committed rows, as a worker does once no earlier row can appear."""
    while (await give_positions(context)).has_more:
        pass
    # The first call notes how far that is, unless an earlier call has left something.
    for _ in range(2):
        while await chain_entries(context, rest=timedelta(0)):
            pass
    while await chain_audit(context):
        pass


async def check_books(service: Service) -> None:
    await chain_all(service.context)
    wrong = await Copy.ask(service.database, find_wrong)
    assert not wrong, wrong
