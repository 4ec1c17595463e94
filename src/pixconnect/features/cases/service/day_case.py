"""One case for each account and day: all differences of the day between the institution's statement and the books.

Its amount is what can be adjusted once each line is answered: the difference of the day's balances, waiting lines that count,
and book lines that the statement lacks; on the first day also the difference of its first balance from the books. Lines that
are set aside are only in its text, as they may be no money. Days that no file covers are one case together, which asks for a
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Final

from pixconnect.features.cases.rules import TEXT_LENGTH_MAX, Difference
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import BalanceGap
from pixconnect.features.institutions.rules.joining import BookLine, RecordedItem, find_parts
from pixconnect.features.institutions.rules.special_line import find_stated_change, waits_for_file
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.features.institutions.service.day import UnmatchedSpan
from pixconnect.features.institutions.service.statement_account import find_balance_meaning
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, show_reais
from pixconnect.platform.base.clock import SAO_PAULO

_MORE_LENGTH: Final = 100  # length of the note on omitted lines


def list_differences(account: InstitutionAccount, span: UnmatchedSpan) -> list[Difference]:
    """Return the case of each day of a span, by day."""
    apart = {judged.day: (judged.difference_cents or 0, judged.cases.disagreements_count) for judged in span.days}
    items, lines = defaultdict[date, list[RecordedItem]](list), defaultdict[date, list[BookLine]](list)
    for item in span.items:
        items[item.day].append(item)
    for line in span.lines:
        lines[line.day].append(line)
    first = {} if span.first is None or not span.first[1] else dict([span.first])
    return [
        _of_day(account, day, (*apart.get(day, (0, 0)), first.get(day, 0)), items[day], lines[day])
        for day in sorted({*apart, *items, *lines, *first})
    ]


def describe_gap(account: InstitutionAccount, gap: BalanceGap) -> Difference:
    """Return the case that asks for a file."""
    days = f"{gap.first_on}" if gap.first_on == gap.last_on else f"{gap.first_on} to {gap.last_on}"
    moved_cents = gap.after_cents - gap.before_cents
    before_on, after_on = gap.beside
    shown = f", of which lines of other files are {_format_cents(gap.shown_cents)}" if gap.shown_cents else ""
    if moved_cents == gap.shown_cents:
        shown += "; the day before them ended with an application, and overnight investments leave the same balance each day"
    return Difference(
        kind="file",
        institution_id=account.id,
        # Files are read in the order of days: an operator's closing holds if one of the first days is read.
        name=gap.last_on.isoformat(),
        amount_cents=within_bounds(moved_cents - gap.shown_cents),
        facts=f"no file covers all of {days}: the balance was {show_reais(gap.before_cents)} at the end of {before_on},"
        f" and {show_reais(gap.after_cents)} at the beginning of {after_on}, a difference of {_format_cents(moved_cents)}"
        f"{shown}; read a file of {days}: `institution statement {account.name} FILE`",
        since=datetime.combine(gap.first_on, time(0), SAO_PAULO),
    )


def _of_day(
    account: InstitutionAccount,
    day: date,
    apart: tuple[int, int, int],
    items: Sequence[RecordedItem],
    lines: Sequence[BookLine],
) -> Difference:
    apart_cents, disagreements_count, first_cents = apart
    # If all of it is one holder's, it is that holder's case; without a name it is the house's.
    owners = {line.holder_id for line in lines} if not (items or apart_cents or first_cents) else set[int]()
    has_investments = find_balance_meaning(account) == "with_investments"
    # In the sums of the day, and none of our records.
    unrecorded_cents = sum(
        find_stated_change(item, has_investments=has_investments) or 0
        for item in items
        if item.joined_kind is None and (item.waits is None or OUTCOMES[item.waits].counts)
    )
    booked_cents = sum(line.signed_cents for line in lines)
    facts = [f"the balance at its end is {_format_cents(apart_cents)} beside its begin and its lines"] if apart_cents else []
    if first_cents:
        facts.append(f"the balance before this first day differs from the books by {_format_cents(first_cents)}")
    if disagreements_count:
        facts.append(f"a second form of its statement contradicts {disagreements_count} of its lines and balances")
    facts += [_describe_item(item, len(find_parts(item, lines))) for item in items]
    for line in lines:
        cents, names = _format_cents(line.signed_cents), ", ".join(line.names)
        facts.append(f"{line.key[0]} {line.key[1]} of {cents} is not in the statement: {names}")
    return Difference(
        kind="day",
        institution_id=account.id,
        holder_id=owners.pop() if len(owners) == 1 else account.house_id,
        name=day.isoformat(),
        # Booked amounts that the institution lacks count negative.
        amount_cents=within_bounds(apart_cents + first_cents + unrecorded_cents - booked_cents),
        facts=_cut_list(facts),
        since=datetime.combine(day, time(0), SAO_PAULO),
    )


def _describe_item(item: RecordedItem, parts_count: int) -> str:
    waits: str = item.waits or "not posted"
    if parts_count and waits != "separated":
        waits = f"it may be the sum of {parts_count} Pix of the day, and `case answer --ours` confirms that"
    elif waits_for_file(item):
        waits += (
            " (an earlier day may lack lines: read a whole file of that day. Later redemptions wait too, and 31 days after"
            " that day all are judged without it)"
        )
    elif item.direction == "IN" and (waits == "not_yet_read" or (waits == "could_be_ours" and item.names)):
        waits += " (no reading reports it; if it gives a sent transfer back, `case adjust` records that"
        waits += ")" if waits.startswith("could") else "; otherwise it can be answered three days after its day)"
    named = "".join(f" {name}" for name in item.names)
    return (
        f"line {item.item_id} of {_format_cents(item.signed_cents)}, {item.kind}, {waits}, read on"
        f" {item.recorded_at.astimezone(SAO_PAULO):%Y-%m-%d} from {item.source}: {item.text}{named}"
    )


def _format_cents(cents: int) -> str:
    return ("" if cents < 0 else "+") + show_reais(cents)


def _cut_list(facts: Sequence[str]) -> str:
    """Cut a list to its room, and return how many more there are."""
    kept, length = list[str](), 0
    for text in facts:
        length += len(text) + 2
        if kept and length > TEXT_LENGTH_MAX - _MORE_LENGTH:
            kept.append(f"and {len(facts) - len(kept)} more, as `institution days --lines` prints them")
            break
        kept.append(text)
    return kept_report.storable("; ".join(kept), TEXT_LENGTH_MAX)


def within_bounds(cents: int) -> int | None:
    # Two permitted amounts may differ by more than one: the case of any report is opened.
    return max(-AMOUNT_MAX_CENTS, min(cents, AMOUNT_MAX_CENTS)) or None
