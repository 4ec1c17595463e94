"""A worker's tasks of contests at each account: read them, and send holders' answers."""

from collections.abc import Collection
from typing import Final

from pixconnect.features.contests.service.defence import follow_contests, send_due_defences
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.institutions.rules.sweep import Pace
from pixconnect.features.institutions.worker import ORDERS_MAX, AccountTask
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.settlement import Fence


async def read_contests(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Read payers' contests, if the institution lists them; if that is refused, payments are read all the same."""
    await follow_contests(context, opened, is_called=bool(called))


async def send_defences(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    await send_due_defences(context, opened, ORDERS_MAX)


ACCOUNT_TASKS: Final = (AccountTask(do=read_contests, is_reading=True), AccountTask(do=send_defences))
