"""Figures of accounts, and the alarms that pause them: bounded statements over all accounts."""

from datetime import date, datetime
from typing import Final, Literal, LiteralString

from msgspec import Struct

from pixconnect.features.movements.tables import IS_KEPT
from pixconnect.kernel.tables.lookup import Command, FindAll, Pairs, ReadAll, Value
from pixconnect.kernel.tables.table import Table

AlarmKind = Literal["strays", "drain"]


class AccountAlarm(Struct, frozen=True, kw_only=True):
    id: int
    institution_id: int
    kind: AlarmKind
    observation: str
    noticed_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None


ALARM: Final = Table(
    "account_alarm",
    AccountAlarm,
    """
    id bigint, institution_id smallint, kind text, observation text, noticed_at timestamptz, ended_at timestamptz, ended_by text
    """,
    key=("id",),
)


raise_alarm: Final = Value[bool, int, AlarmKind, str, datetime]("select raise_alarm($1, $2, $3, $4)")
"""Pause an active account and record why, in one transaction; ``False`` if it is not active any more."""

list_alarms: Final = FindAll[AccountAlarm](ALARM, "where ended_at is null order by id")
"""List alarms whose account no operator has resumed."""
find_last_alarm: Final = Value[datetime | None, int]("select max(noticed_at) from account_alarm where institution_id = $1")
"""Find when the last alarm was raised: an acknowledged observation raises no other."""

end: Final = Command[int, str]("""
    update account_alarm set ended_at = clock_timestamp(), ended_by = $2 where institution_id = $1 and ended_at is null
""")

# A line without an hour is dated by the institution's first listing; a line of a file may be of any hour of its day.
count_strays: Final = Value[int, int, datetime](f"""
    select coalesce(max(count), 0) from (
        select count(*) over (order by at range between interval '1 hour' preceding and current row) as count
        from (
            select coalesce(item.settled_at, case when item.source = 'api' then item.recorded_at end) as at
            from movement join institution_item as item
                on item.institution_id = movement.institution_id and item.joined_kind = 'movement'
                and item.joined_id = movement.item_id
            where movement.institution_id = $1 and movement.kind = 'by_hand' and movement.direction = 'OUT'
                and movement.created_at > $2 and movement.opposite_of is null
                and {IS_KEPT}
                and not exists (
                    select from case_ending
                    where case_ending.institution_id = item.institution_id and contrary_item_id = item.item_id
                )
        ) as stray
        where at > $2
    ) as counted
""")
"""The maximum of Pix per hour, since an instant, that left without an order of this service."""

sum_out: Final = Value[int, int, datetime](f"""
    select coalesce(sum(amount_cents), 0)::bigint from (
        select amount_cents from transfer
        where institution_id = $1 and direction = 'OUT' and not is_book and network_settled_at > $2
        union all
        select refund.amount_cents from refund
        join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
        where transfer.institution_id = $1 and refund.flow = 'OUT' and not refund.is_book and refund.settled_at > $2
        union all
        select amount_cents from movement
        where institution_id = $1 and direction = 'OUT' and kind <> 'opening_balance' and network_settled_at > $2
            and created_at > $2 and status = 'POSTED' and opposite_of is null
            and {IS_KEPT}
    ) as gone
""")
"""The money that left an account since then, ordered here or not, in cents."""

PauseReason = Literal["operator", "loss", "strays", "drain"]


class AccountFigures(Struct, frozen=True, kw_only=True):
    """Figures of one open account."""

    id: int
    name: str
    poll_s: int
    read_at: datetime  # real time: when the last complete reading of incoming Pix ended, or when the account was added
    paused_by: PauseReason | None  # ``operator``, ``loss``, or an alarm by its kind; ``None`` if it is active
    unclosed_on: date | None  # the oldest past day that is not closed, among the last ones since the books began


# A day without a statement has no row: it is not closed either.
list_figures: Final = ReadAll[AccountFigures, date, int](
    AccountFigures,
    """
    select account.id, account.name, account.poll_s, coalesce(near.ended_at, account.created_at) as read_at,
        case when account.state = 'active' then null when account.lost_at is not null then 'loss' else coalesce((
            select kind from account_alarm where institution_id = account.id and ended_at is null order by id limit 1
        ), 'operator') end as paused_by,
        (
            select min($1::date - number) from generate_series(1, $2::int) as number
            where $1::date - number > (account.opened_at at time zone 'America/Sao_Paulo')::date
                and not exists (
                    select from institution_day as closed
                    where closed.institution_id = account.id and closed.day = $1::date - number
                        and closed.state in ('closed', 'closed_with_cases')
                )
        ) as unclosed_on
    from institution_account as account
    left join institution_sweep as near on near.institution_id = account.id and near.pace = 'near'
    where account.removed_at is null and account.state <> 'closed' order by account.id
""",
)
"""List the figures of all open accounts, as of a day, with so many days before it checked."""

# Orders handed over count as gone, except those that wait at the institution for funds. Orders that wait for an operator's
# approval here may never leave.
_QUEUED: Final[LiteralString] = """
    approval is distinct from 'awaited' and (handed_at is null or exists (
        select from waiting_order where order_name = open_order.name and waits_for = 'funds' offset 0
    ))
"""
# Bounded before it is joined; an order's name begins with E for a transfer and with D for a refund.
sum_queued: Final = Pairs[int, int, int](f"""
    select queued.institution_id, sum(coalesce(transfer.amount_cents, refund.amount_cents, 0))::bigint as cents
    from (
        select institution_id, name, holder_id, resource_id from open_order
        where institution_id is not null and {_QUEUED} limit $1
    ) as queued
    left join transfer on left(name, 1) = 'E' and transfer.id = resource_id and transfer.holder_id = queued.holder_id
    left join refund on left(name, 1) = 'D' and refund.id = resource_id and refund.holder_id = queued.holder_id
    group by queued.institution_id
""")
"""Sum the unsent orders' amounts by account, in cents; at most so many are added up."""

is_queued: Final = Value[bool, int](f"select exists (select from open_order where institution_id = $1 and {_QUEUED})")
"""Whether an order over an account has not left yet."""

# Limited per account, so that a busy one hides no quiet one.
count_received: Final = Pairs[int, int, datetime, int]("""
    select account.id, (
        select count(*) from (
            select from transfer
            where transfer.institution_id = account.id and network_settled_at > $1 and direction = 'IN' limit $2
        ) as received
    ) as count
    from institution_account as account where removed_at is null and state <> 'closed'
""")
"""Count Pix received per account since an instant of service time, each up to a maximum."""
