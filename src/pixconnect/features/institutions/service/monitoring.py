"""Metrics of accounts at institutions, their problems for the health check, and the alarms that pause them.

Alarms pause an account whose outgoing money suggests a stolen credential, or a drain. A pause stops new outgoing money, and
reading continues. Only an operator resumes the account; earlier observations raise no alarm again. As with any pause, other
processes see it after a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Final, get_args

import structlog
from msgspec import Struct

from pixconnect.doors.worker.parts import Chore, Gauge, Meter, Problem, age_s, counted
from pixconnect.features.institutions.accounts import CALLS, INSTITUTIONS
from pixconnect.features.institutions.rules.account import AccountCertificate, InstitutionAccount, find_ending
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import alarm as alarm_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.institutions.tables.alarm import AccountFigures, AlarmKind
from pixconnect.features.institutions.tables.pending_call import WaitingCharge
from pixconnect.kernel.flows import unresolved
from pixconnect.kernel.flows.context import Context, Core, Operator
from pixconnect.kernel.flows.unresolved import LISTED_MAX
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base.clock import SAO_PAULO, to_day

# Each worker counts at each scrape, so counts of busy accounts are bounded.
RECEIVED_MAX: Final = 10_000
QUEUED_MAX: Final = 10_000
UNCLOSED_DAYS_MAX: Final = 40  # `pixconnect institution days` lists older open days
STRAYS_MAX: Final = 2  # permitted Pix an hour without an order here: a person paid by hand, in the institution's app
STRAYS_SINCE: Final = timedelta(days=1)
"""Older ones only appear in a late statement: reading last month's must not pause the account."""
DRAIN_PERCENT: Final = 50  # of the balance and the incoming money, unless the account's options differ
DRAIN_MIN_CENTS: Final = 100_000  # less than R$ 1,000 in an hour is no drain, with any balance
_AN_HOUR: Final = timedelta(hours=1)
UNREAD_MAX: Final = timedelta(minutes=5)
"""How long an account at an institution may stay unread; one with a longer interval, for three intervals."""
_CHECK: Final = "institutions"
CHARGE_WAITS_MAX: Final = timedelta(minutes=15)
"""An opening may arrive for ten minutes after its request, so one that waits that long is no problem."""


_log = structlog.get_logger(__name__)


class _Accounts(Struct, frozen=True, kw_only=True):
    """Accounts that are not closed."""

    accounts: Sequence[AccountFigures]
    received: Mapping[int, int]
    queued_cents: Mapping[int, int]
    real_now: datetime

    def unclosed_s(self, one: AccountFigures) -> float:
        if one.unclosed_on is None:
            return 0.0
        ended_at = datetime.combine(one.unclosed_on + timedelta(days=1), time.min, SAO_PAULO)
        return (self.real_now - ended_at).total_seconds()


async def _look_at_accounts(context: Context, now: datetime) -> _Accounts:
    pool, real_now = context.pool, context.clock.real_now()
    # Institutions end their days by real time, regardless of the sandbox's clock.
    accounts = await alarm_store.list_figures(pool, to_day(real_now), UNCLOSED_DAYS_MAX)
    # A sandbox often has none, and each scrape would query in vain.
    queued_cents = await alarm_store.sum_queued(pool, QUEUED_MAX) if accounts else {}
    received = await alarm_store.count_received(pool, now - _AN_HOUR, RECEIVED_MAX) if accounts else {}
    return _Accounts(accounts=accounts, received=received, queued_cents=queued_cents, real_now=real_now)


async def _look_at_alarms(context: Context, _now: datetime) -> Counter[AlarmKind]:
    return Counter(one.kind for one in await alarm_store.list_alarms(context.pool))


async def count_waiting_transfers(context: Context) -> int:
    """Count transfers that wait for a person at their institution."""
    return len(await order_store.list_waiting_since(context.pool, LISTED_MAX))


async def _look_at_transfers(context: Context, now: datetime) -> list[tuple[str, float]]:
    waiting = await order_store.list_waiting_since(context.pool, LISTED_MAX)
    return [(name, age_s(since, now)) for name, since in waiting]


async def _look_at_certificates(context: Context, _now: datetime) -> list[tuple[str, AccountCertificate, float]]:
    real_now = context.clock.real_now()
    certificates = await account_store.list_certificates(context.pool)
    return [(name, used, (used.ends_at - real_now).total_seconds()) for name, used in certificates]


async def _look_at_charges(context: Context, _now: datetime) -> list[tuple[WaitingCharge, float]]:
    real_now = context.clock.real_now()
    return [(one, age_s(one.since, real_now)) for one in await call_store.list_begun(context.pool, real_now, LISTED_MAX)]


# fmt: off
GAUGES: Final = (
    Gauge[Context]("pixconnect_institution_calls_total", ("institution", "outcome"),
        "Calls to institutions, by outcome: answered, refused (401 or 403), throttled (429), failed (5xx), "
            "lost (no whole answer), unreached (nothing was sent), or no_token (the institution refused a token, so "
            "no call was made).",
        lambda context: dict(context.port(CALLS)), "counter"),
)
METERS: Final = (
    Meter[Counter[AlarmKind]](look=_look_at_alarms, gauges=(
        Gauge("pixconnect_institution_alarms", ("kind",),
            "Accounts at institutions that are paused by an alarm: Pix without an order here (strays), or a large part "
            "of the balance within an hour (drain); see `pixconnect institution show`.",
            lambda found: {kind: found[kind] for kind in get_args(AlarmKind)}),
    )),
    Meter[list[tuple[str, float]]](look=_look_at_transfers, gauges=(
        Gauge("pixconnect_institution_transfers_waiting", ("institution",),
            "Transfers that wait for a person at their institution, to be approved or for enough money there.",
            lambda waiting: Counter(name for name, _ in waiting)),
        Gauge("pixconnect_institution_transfer_oldest_waiting_age_seconds", ("institution",),
            "How long ago the oldest of these began to wait.",
            # The oldest comes first, so it is written last.
            lambda waiting: dict(reversed(waiting))),
    )),
    Meter[list[tuple[str, AccountCertificate, float]]](look=_look_at_certificates, gauges=(
        Gauge("pixconnect_institution_certificate_seconds_left", ("institution", "part"),
            "How long a certificate by which an account at an institution is reached is still valid: of the receiving or the "
            "sending credential, or the authority of the institution's own.",
            lambda found: {(name, used.part): left_s for name, used, left_s in found}),
    )),
    Meter[list[tuple[WaitingCharge, float]]](look=_look_at_charges, gauges=(
        Gauge("pixconnect_institution_charges_waiting", ("institution", "wanted"),
            "Charges at institutions that are being opened, revised, removed or withdrawn, with an unknown outcome; "
            "counted up to 1000. See `pixconnect find --unresolved`.",
            lambda waiting: Counter((one.institution, one.wanted) for one, _ in waiting)),
        Gauge("pixconnect_institution_charge_oldest_waiting_age_seconds", ("institution",),
            "How long the oldest of these has waited.",
            lambda waiting: {one.institution: age for one, age in reversed(waiting)}),
    )),
    Meter[_Accounts](look=_look_at_accounts, gauges=(
        Gauge("pixconnect_institution_received_last_hour", ("institution",),
            "Pix that came in at an account within the last hour, by when the network settled them; "
            f"counted up to {RECEIVED_MAX}.",
            lambda seen: {one.name: seen.received.get(one.id, 0) for one in seen.accounts}),
        Gauge("pixconnect_institution_unread_seconds", ("institution",),
            "How long ago what came in at an account was last read whole; the health check uses it.",
            lambda seen: {one.name: age_s(one.read_at, seen.real_now) for one in seen.accounts}),
        Gauge("pixconnect_institution_poll_seconds", ("institution",),
            "How often it is to be read.",
            lambda seen: {one.name: one.poll_s for one in seen.accounts}),
        Gauge("pixconnect_institution_paused", ("institution", "reason"),
            "1 for an account over which no money leaves: by an operator, since the database forgot something (loss), or by an "
            "alarm (strays, drain).",
            lambda seen: {(one.name, one.paused_by): 1 for one in seen.accounts if one.paused_by}),
        Gauge("pixconnect_institution_unclosed_day_age_seconds", ("institution",),
            "How long ago the oldest day ended that is over and not closed, in the real time of Sao Paulo, among "
            f"the last {UNCLOSED_DAYS_MAX} and after the day on which the account's books began; 0 if there is none.",
            lambda seen: {one.name: seen.unclosed_s(one) for one in seen.accounts}),
        Gauge("pixconnect_institution_queued_cents", ("institution",),
            "What orders are to take from an account that were not handed over, or wait there for enough money, but for those "
            f"that wait for an operator's approval; of up to {QUEUED_MAX} orders.",
            lambda seen: {one.name: seen.queued_cents.get(one.id, 0) for one in seen.accounts}),
    )),
)
# fmt: on


async def list_late_charges(context: Context, count_max: int = unresolved.LISTED_MAX) -> Sequence[WaitingCharge]:
    """Charges at institutions that have been opened or changed for too long, the longest waiting first."""
    return await call_store.list_begun(context.pool, context.clock.real_now() - CHARGE_WAITS_MAX, count_max)


async def list_waiting_charges(
    context: Operator, silent_for: timedelta, holder_id: int | None, name: str | None
) -> list[WaitingCharge]:
    """Charges at institutions that have been opened or changed for so long, of one holder and of one txid, or of all."""
    found = await call_store.list_begun(context.pool, context.clock.real_now() - silent_for, unresolved.LISTED_MAX)
    return [one for one in found if holder_id in (None, one.holder_id) and name in (None, one.txid)]


async def _count_unread(context: Context) -> int:
    late_count = 0
    for account in filter(lambda one: one.is_read, await context.port(INSTITUTIONS).list_all()):
        near = await day_store.find(context.pool, account.id, "near")
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
    ending = find_ending(await account_store.list_certificates(context.pool), context.clock.real_now())
    return f"a certificate of an account at an institution {ending[0].text}" if ending else None


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


def has_alarms(account: InstitutionAccount) -> bool:
    """Whether an account has alarms; a counterpart, where nothing can be stolen, only on request."""
    return account.options.get("alarms", account.environment != "counterpart") is True


async def describe_alarm(context: Core, institution_id: int) -> str | None:
    standing = [one for one in await alarm_store.list_alarms(context.pool) if one.institution_id == institution_id]
    return f"{standing[0].kind}: {standing[0].observation}" if standing else None


async def look_for_alarms(context: Context) -> None:
    """Pause each active account with too many unordered sends, or too much outgoing money."""
    for account in await account_store.list_all(context.pool):
        if account.state == "active" and has_alarms(account):
            await _look_at(context, account)


async def _look_at(context: Context, account: InstitutionAccount) -> None:
    now = context.clock.now()
    # Observations that an operator has seen no longer count, or resuming the account would pause it again at once.
    seen_at = await alarm_store.find_last_alarm(context.pool, account.id) or account.opened_at
    strays_count = await alarm_store.count_strays(context.pool, account.id, max(seen_at, now - STRAYS_SINCE))
    if strays_count > STRAYS_MAX:
        await _raise(context, account, "strays", f"{strays_count} Pix left within an hour without an order here", now)
        return
    out_cents = await alarm_store.sum_out(context.pool, account.id, max(seen_at, now - _AN_HOUR))
    if out_cents < DRAIN_MIN_CENTS:
        return
    # The balance and the incoming money within the hour: the rest, and the outgoing money.
    before_cents = out_cents + await account_store.sum_balance_here(context.pool, account.id)
    percent = account.options.get("drain_percent", DRAIN_PERCENT)
    if out_cents * 100 > before_cents * int(percent):
        words = f"{out_cents} cents left within an hour, of {before_cents}: more than {percent} %"
        await _raise(context, account, "drain", words, now)


async def _raise(context: Context, account: InstitutionAccount, kind: AlarmKind, observation: str, now: datetime) -> None:
    if await alarm_store.raise_alarm(context.pool, account.id, kind, observation, now):
        _log.critical("an account was paused", institution=account.name, reason=kind, observation=observation)


CHORES: Final = (Chore(name="alarms", run=look_for_alarms, every_s=20.0),)
