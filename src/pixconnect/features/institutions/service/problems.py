"""Problems of accounts at institutions for the health check. `institution list` names the accounts, for operators alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pixconnect.doors.worker.rows import Problem, counted
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules.account import find_ending
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import certificate as certificate_store
from pixconnect.features.institutions.tables import charge_opening as waiting_store
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.features.institutions.tables.charge_opening import WaitingCharge
from pixconnect.features.monitoring.tables import account_alarm as alarm_store
from pixconnect.kernel.flows import unresolved
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.tables import order as order_store

UNREAD_MAX: Final = timedelta(minutes=5)
"""How long an account at an institution may stay unread; one with a longer interval, for three intervals."""
_CHECK: Final = "institutions"
CHARGE_WAITS_MAX: Final = timedelta(minutes=15)
"""An opening may arrive for ten minutes after its request, so one that waits that long is no problem."""


async def list_late_charges(context: Context, count_max: int = unresolved.LISTED_MAX) -> Sequence[WaitingCharge]:
    """Charges at institutions that have been opened or changed for too long, the longest waiting first."""
    return await waiting_store.list_begun(context.pool, context.clock.real_now() - CHARGE_WAITS_MAX, count_max)


async def list_waiting_charges(
    context: Operator, silent_for: timedelta, holder_id: int | None, name: str | None
) -> list[WaitingCharge]:
    """Charges at institutions that have been opened or changed for so long, of one holder and of one txid, or of all."""
    found = await waiting_store.list_begun(context.pool, context.clock.real_now() - silent_for, unresolved.LISTED_MAX)
    return [one for one in found if holder_id in (None, one.holder_id) and name in (None, one.txid)]


async def _count_unread(context: Context) -> int:
    late_count = 0
    for account in await context.port(INSTITUTIONS).list_active():
        near = await sweep_store.find(context.pool, account.id, "near")
        since = account.created_at if near is None else near.ended_at
        late_count += context.clock.real_now() - since > max(UNREAD_MAX, timedelta(seconds=3 * account.poll_s))
    return late_count


async def _count_lost(context: Context) -> int:
    return sum(account.lost_at is not None for account in await account_store.list_all(context.pool))


async def _count_alarms(context: Context) -> int:
    return len(await alarm_store.list_alarms(context.pool))


async def _count_late_charges(context: Context) -> int:
    return len(await list_late_charges(context))


async def _count_late_transfers(context: Context) -> int:
    now = context.clock.now()
    waiting = await order_store.list_waiting_since(context.pool, unresolved.LISTED_MAX)
    return sum(now - since > unresolved.PERSON_WAITS_MAX for _, since in waiting)


async def _find_ending(context: Context) -> str | None:
    # The soonest; `institution list` has the others.
    ending = find_ending(await certificate_store.list_all(context.pool), context.clock.real_now())
    return f"a certificate of an account at an institution {ending[0].said}" if ending else None


PROBLEMS: Final = (
    counted(
        *(_CHECK, _count_unread, "account at an institution was", "accounts at institutions were"),
        f"not read for over {UNREAD_MAX // timedelta(seconds=1)} s",
    ),
    counted(
        *(_CHECK, _count_lost, "account at an institution is", "accounts at institutions are"),
        "paused since the database has forgotten something",
    ),
    counted(
        *(_CHECK, _count_alarms, "account at an institution is", "accounts at institutions are"),
        "paused by an alarm: money left as by theft",
    ),
    counted(
        *(_CHECK, _count_late_charges, "charge at an institution has", "charges at institutions have"),
        f"waited for over {CHARGE_WAITS_MAX // timedelta(seconds=1)} s to be opened or changed",
    ),
    counted(
        *(_CHECK, _count_late_transfers, "transfer has", "transfers have"),
        f"waited for a person at the institution for over {unresolved.PERSON_WAITS_MAX // timedelta(hours=1)} h",
    ),
    Problem(check=_CHECK, find=_find_ending),
)
