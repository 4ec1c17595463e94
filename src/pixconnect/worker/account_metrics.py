"""What a worker measures of accounts at institutions.

What the database knows of them is told by each worker; what their institutions said last, by the one that has the account.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Final, Literal

from msgspec import Struct

from pixconnect.domain.frame.civil_time import SAO_PAULO, to_day
from pixconnect.foundation.metrics import Value
from pixconnect.foundation.pool import Pool
from pixconnect.store.institutions import account_figures as figures_store

# Each worker counts at each scrape, so a busy account must not be counted to its end.
RECEIVED_MAX: Final = 10_000
QUEUED_MAX: Final = 10_000
UNCLOSED_DAYS_MAX: Final = 40
"""Older days that are open are told by `pixconnect institution days`."""
_AN_HOUR: Final = timedelta(hours=1)

Readings = Mapping[str, Mapping[str, Value] | Mapping[tuple[str, ...], Value]]

# fmt: off
ROWS: Final[tuple[tuple[str, Literal["gauge"], tuple[str, ...], str], ...]] = (
    ("pixconnect_institution_received_last_hour", "gauge", ("institution",),
        "Pix that came in at an account within the last hour, by when the network settled them; "
        f"counted up to {RECEIVED_MAX}."),
    ("pixconnect_institution_unread_seconds", "gauge", ("institution",),
        "How long ago what came in at an account was last read whole; the health check uses it."),
    ("pixconnect_institution_poll_seconds", "gauge", ("institution",), "How often it is to be read."),
    ("pixconnect_institution_paused", "gauge", ("institution", "reason"),
        "1 for an account over which no money leaves: by an operator, since the database forgot something (loss), or by an "
        "alarm (strays, drain)."),
    ("pixconnect_institution_unclosed_day_age_seconds", "gauge", ("institution",),
        "How long ago the oldest day ended that is over and not closed, in the real time of Sao Paulo, among "
        f"the last {UNCLOSED_DAYS_MAX} and after the day on which the account's books began; 0 if there is none."),
    ("pixconnect_institution_queued_cents", "gauge", ("institution",),
        "What orders are to take from an account that were not handed over, or wait there for enough money, but for those that "
        f"wait for an operator's yes; of up to {QUEUED_MAX} orders."),
)
# fmt: on


class InstitutionFigures(Struct, frozen=True, kw_only=True):
    """What this worker knows of accounts by itself."""

    calls: Mapping[tuple[str, str], int] = {}
    """By account and outcome."""
    balances_cents: Mapping[str, int] = {}
    """By account."""


async def measure_accounts(pool: Pool, now: datetime, real_now: datetime) -> Readings:
    """What the database knows of accounts that are not closed, by metric and account.

    Args:
        pool: Of the service.
        now: In service time.
        real_now: By which days end.
    """
    # Institutions end their days by real time, wherever the sandbox's clock stands.
    today = to_day(real_now)
    accounts = await figures_store.list_figures(pool, today, UNCLOSED_DAYS_MAX)
    # In a sandbox there is often none, and each scrape would ask in vain.
    queued_cents = await figures_store.sum_queued(pool, QUEUED_MAX) if accounts else {}
    received = await figures_store.count_received(pool, now - _AN_HOUR, RECEIVED_MAX) if accounts else {}
    return {
        "pixconnect_institution_received_last_hour": {one.name: received.get(one.id, 0) for one in accounts},
        "pixconnect_institution_unread_seconds": {
            one.name: max(0.0, (real_now - one.read_at).total_seconds()) for one in accounts
        },
        "pixconnect_institution_poll_seconds": {one.name: one.poll_s for one in accounts},
        "pixconnect_institution_paused": {(one.name, one.paused_by): 1 for one in accounts if one.paused_by},
        "pixconnect_institution_unclosed_day_age_seconds": {
            one.name: 0.0
            if one.unclosed_on is None
            else (real_now - datetime.combine(one.unclosed_on + timedelta(days=1), time.min, SAO_PAULO)).total_seconds()
            for one in accounts
        },
        "pixconnect_institution_queued_cents": {one.name: queued_cents.get(one.id, 0) for one in accounts},
    }
