"""``pixconnect institution statement`` and ``days``: an institution's statement, and how its days close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import load_file
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.institutions.cli.opening import AccountName, run_with_opener
from pixconnect.features.institutions.rules.day import JudgedDay
from pixconnect.features.institutions.rules.judging import JudgedLine
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service.statement import FilePreview, RecordedStatement, SettledStatement
from pixconnect.features.institutions.service.statement_account import DAYS_MAX
from pixconnect.features.institutions.service.statement_sweep import fetch_own_file
from pixconnect.features.institutions.statement_files.statement_file import BYTES_MAX
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform import outgoing_text

_COLUMNS: Final = (
    "day", "status", "opening_cents", "gross_cents", "fees_cents", "returns_cents", "others_cents", "closing_cents",
    "difference_cents", "unmatched_there", "unmatched_here",
)  # fmt: skip


def statement(
    name: AccountName, file: Path | None = None, *, confirm: Annotated[bool, Parameter(negative=())] = False, json: Json = False
) -> None:
    """Record a statement file of an account, match its lines to our records, and post unmatched ones.

    Repeated lines are ignored. An ambiguous file is refused as a whole.

    The first file of each form is only shown: the account that it names, its balances, and the postings it would make. Check
    these, and run the verb again with `--confirm`; until then it ends with 1.

    Args:
        file: OFX or another format that is read; without it, the institution's own file that waits.
        confirm: The file is this account's: read it, and later files of its form.
    """
    is_own = file is None
    content = run_with_opener(fetch_own_file, name) if file is None else load_file(file, BYTES_MAX)
    preview = None if confirm else operating.run(statement_usecases.preview_file, name, content, is_own=is_own)
    if preview is not None:
        output.show(_show_preview(preview, json=json), as_json=json)
        raise CommandError("nothing was read: if this is the account, run the verb again with --confirm")

    async def do(operator: Operator, writes: Writer) -> tuple[RecordedStatement, SettledStatement, list[Shown]]:
        recorded = await statement_usecases.record_file(
            operator, name, content, is_own=is_own, file_name=file.name if file is not None else ""
        )
        account = await day_usecases.read_named_account(operator, name)
        settled = await statement_usecases.settle_items(writes, account, recorded.first_on)
        last_on = recorded.last_on
        count = min((last_on - recorded.first_on).days + 1, DAYS_MAX)
        days = await day_usecases.list_days(writes, account, last_on, count)
        return recorded, settled, [_show_day(day) for day in days]

    recorded, settled, days = operating.run_writing(do)
    shown: Shown = dict(
        first_on=recorded.first_on.isoformat(),
        last_on=recorded.last_on.isoformat(),
        new_count=len(recorded.new),
        known_count=recorded.known_count,
        joined_count=settled.joined_count,
        posted_count=settled.posted_count,
        unmatched_count=settled.waiting_count,
        set_aside=[_name_aside(line, json=json) for line in recorded.set_aside] or None,
        compared_days=[day.isoformat() for day in recorded.compared_days] or None,
        other_accounts=[str(account) for account in recorded.others] or None,
        notes=list(recorded.notes) or None,
    )
    output.show(shown | (dict(days=days) if json else {}), as_json=json)
    if not json:
        output.show_list("days", days, as_json=False, columns=_COLUMNS)


def _show_preview(preview: FilePreview, *, json: bool) -> Shown:
    recorded, (opening, closing) = preview.recorded, preview.balances
    sums = Counter[tuple[str, str]]()
    for one in preview.posts:
        sums[one.kind, one.item.direction] += one.item.amount_cents
    write = str if json else show_reais
    return dict(
        form=preview.chosen.first.format,
        account=str(preview.chosen.first.account),
        other_accounts=[str(account) for account in recorded.others] or None,
        first_on=recorded.first_on.isoformat(),
        last_on=recorded.last_on.isoformat(),
        opening_cents=opening and opening.cents,
        opening_is_at_the_end_of=opening and opening.on.isoformat(),
        closing_cents=closing and closing.cents,
        closing_is_at_the_end_of=closing and closing.on.isoformat(),
        new_count=len(recorded.new),
        would_post=[f"{kind} {direction} {write(cents)}" for (kind, direction), cents in sorted(sums.items())] or None,
        would_post_from=min((one.item.day for one in preview.posts), default=None),
        would_wait_count=preview.waiting_count,
        set_aside=[_name_aside(line, json=False) for line in recorded.set_aside] or None,
        compared_days=[day.isoformat() for day in recorded.compared_days] or None,
        notes=list(recorded.notes) or None,
    )


def days(
    name: AccountName,
    *,
    count: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=400))] = day_usecases.SHOWN_DAYS,
    until: date | None = None,
    lines: Annotated[date | None, Parameter(help="Print the lines of one day instead.")] = None,
    as_csv: Annotated[bool, Parameter(name="--csv", negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Print an account's last days: their balances, movements and unmatched lines.

    Args:
        count: How many.
        until: The last of them; today if it is missing.
        as_csv: Print comma-separated values, amounts in cents.
    """

    async def do(operator: Operator) -> list[Shown]:
        account = await day_usecases.read_named_account(operator, name)
        if lines is not None:
            return _show_lines(await day_usecases.read_day(operator, account, lines))
        return [_show_day(day) for day in await day_usecases.list_days(operator, account, until, count)]

    shown = operating.run(do)
    if as_csv:
        _write_csv(shown)
    elif lines is not None:
        output.show_list("lines", shown, as_json=json, columns=_LINE_COLUMNS)
    else:
        output.show_list("days", shown, as_json=json, columns=_COLUMNS)


_LINE_COLUMNS: Final = ("side", "item_id", "direction", "amount_cents", "kind", "status", "end_to_end_id", "text")


def _show_lines(day: day_usecases.DayLines) -> list[Shown]:
    there: list[Shown] = [
        dict(
            side="there",
            **output.pick(item, "item_id direction amount_cents kind"),
            status=item.waits or ("joined" if item.joined_kind else "unmatched"),
            joined_to=None if item.joined_kind is None else f"{item.joined_kind} {item.joined_id}",
            joined_by=item.joined_by,
            fee_of=None if item.fee_of_kind is None else f"{item.fee_of_kind} {item.fee_of_id}",
            **output.pick(item, "end_to_end_id settled_at"),
            text=item.text or None,
        )
        for item in day.items
    ]
    here: list[Shown] = [
        dict(
            side="here",
            item_id=str(line.key[1]),
            **output.pick(line, "direction amount_cents"),
            kind=line.key[0],
            status="unmatched",
            end_to_end_id=line.names[-1] if line.names else None,
            settled_at=line.settled_at,
        )
        for line in day.lines_alone
    ]
    return there + here


def _show_day(judged: JudgedDay) -> Shown:
    return dict(
        day=judged.day.isoformat(),
        **output.pick(judged, "status=state opening_cents closing_cents"),
        difference_cents=judged.difference_cents or None,
        **output.pick(judged.sums, "gross_cents fees_cents returns_cents others_cents net_cents lines_count=items_count"),
        **output.pick(judged.cases, "unmatched_there=items_count unmatched_here=lines_count"),
        **output.pick(judged, "read_at closed_at reopened_at"),
    )


def _name_aside(line: JudgedLine, *, json: bool) -> object:
    if not json:
        return f"{line.item.item_id} ({line.outcome})"
    named = output.pick(line.item, "item_id day direction amount_cents")
    return named | dict(day=line.item.day.isoformat(), outcome=line.outcome)


def _write_csv(rows: Sequence[Shown]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]
    for line in outgoing_text.in_spreadsheet([names, *cells], ",").decode().splitlines():
        terminal.print_line(line)
