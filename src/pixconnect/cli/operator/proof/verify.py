"""``pixconnect verify``: proves the books."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import to_builtins

from pixconnect.cli.frame import failures, operating, output, terminal
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.settings import complaining_of_home, read_database_settings
from pixconnect.cli.operator.proof.chain import entry, heads_app, read_heads
from pixconnect.config import Settings
from pixconnect.domain.frame.clock import format_instant
from pixconnect.domain.proof.rule import Finding, Rule
from pixconnect.foundation.logging import set_up_logging
from pixconnect.usecases.proof import verify as verify_usecases
from pixconnect.usecases.proof.verify import ProofRequest, Verification

app = App(name="verify", help="Prove the books.")
app.command(heads_app)
app.command(entry)


@app.default
def verify(
    *,
    whole: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    rule: operating.Many[str] = (),
    again_after_s: Annotated[float, Parameter(validator=Number(gte=0, lte=3600))] = 60,
    heads: operating.Many[Path] = (),
    json: Json = False,
) -> None:
    """Look for whatever is wrong in the books, and print it.

    It reads and changes nothing, beside the service. The exit status is 0 where nothing is wrong, 7 where something is, and 3
    where it could not look. Interrupted, a whole run goes on where it was when it is run again.

    Args:
        whole: Look at everything, and not only at what has changed since the last run.
        rule: Look at this rule only, at everything.
        again_after_s: What is found is looked at again after so many seconds, and counts if it is still there.
        heads: A file that `verify heads write` wrote, or a worker's log of JSON lines: the chains must have what is in it.
    """
    settings = read_database_settings()
    set_up_logging(settings.log_format, "warning")
    from pixconnect.foundation.database_failure import DATABASE_FAILED  # noqa: PLC0415  it takes long to import

    request = ProofRequest(
        extent="whole" if whole or rule else "changes", rules=rule, again_after_s=again_after_s, heads=read_heads(heads)
    )
    try:
        with complaining_of_home(settings):
            found = asyncio.run(_look(settings, request))
    except CommandError as error:
        raise CommandError(str(error), status=ExitStatus.UNAVAILABLE) from None
    except DATABASE_FAILED as error:
        why = failures.explain(error) or f"the database was lost ({type(error).__name__})"
        raise CommandError(f"{why}: run it again", status=ExitStatus.UNAVAILABLE) from error
    rules = {each.name: each for each in verify_usecases.choose_rules(request)}
    if json:
        output.show_json(_shown(found, rules))
    else:
        _tell(found, rules)
        if settings.database_cluster and found.waiting_cluster != settings.database_cluster:
            terminal.notice("commits wait for no standby: if a standby takes over now, answers may be forgotten")
    _refuse(found)


async def _look(settings: Settings, request: ProofRequest) -> Verification:
    from pixconnect.assembly import proof  # noqa: PLC0415  it imports everything; help and wrong options need not

    async with proof.open_book_reader(settings) as reader:
        return await verify_usecases.verify(reader, request, _tell_progress)


def _refuse(found: Verification) -> None:
    """Raise ``CommandError`` for what was found, and what could not be looked at."""
    if found.findings:
        raise CommandError(f"{len(found.findings)} findings", status=ExitStatus.BROKEN)
    if found.unreadable_count:
        raise CommandError(f"{found.unreadable_count} rules could not be asked", status=ExitStatus.UNAVAILABLE)


def _tell_progress(holders_count: int, found_count: int) -> None:
    terminal.notice(f"{holders_count} holders looked at, {found_count} to be looked at again")


def _shown(found: Verification, rules: Mapping[str, Rule]) -> output.Shown:
    return dict(
        rules=sum(each.verdict == "checked" for each in found.judgements),
        broken=len({finding.rule for finding in found.findings}),
        holders=found.holders_count,
        unchained=found.unchained_count,
        unchained_audit=found.unchained_audit_count,
        waiting_cluster=found.waiting_cluster,
        judgements=[to_builtins(each) for each in found.judgements],
        findings=[_shown_finding(finding, rules[finding.rule]) for finding in found.findings],
    )


def _shown_finding(finding: Finding, rule: Rule) -> output.Shown:
    return dict(
        rule=finding.rule,
        holder_id=finding.holder_id,
        ids=finding.ids,
        expected=finding.expected,
        found=finding.found,
        since=finding.since,
        meaning=rule.meaning,
        do=rule.todo,
    )


def _tell(found: Verification, rules: Mapping[str, Rule]) -> None:
    for finding in found.findings:
        whose = "" if finding.holder_id is None else f" of holder {finding.holder_id}"
        # What callers and institutions call their things stands in it, and may look like a line of ours.
        terminal.say(
            f"{terminal.paint('!', 'red')} {finding.rule}: {terminal.on_one_line(' '.join(finding.ids))}{whose}"
        )
        rule = rules[finding.rule]
        lines = (
            f"it should be: {rule.says}",
            f"expected {finding.expected}, found {finding.found}",
            "" if finding.since is None else f"since {format_instant(finding.since)}",
            f"it may mean: {rule.meaning}",
            f"do: {rule.todo}",
        )
        for line in filter(None, lines):
            terminal.say(f"    {terminal.on_one_line(line)}")
    for each in found.judgements:
        if each.verdict != "checked":
            where = f" at {each.account}" if each.account else ""
            terminal.say(f"{terminal.paint('~', 'yellow')} {each.rule}{where}: {each.verdict}, {each.reason}")
    checked_count = sum(each.verdict == "checked" for each in found.judgements)
    terminal.say(
        f"{checked_count} rules, {found.holders_count} holders, {len(found.findings)} findings, "
        f"{_say_count(found.unchained_count)} entries and {_say_count(found.unchained_audit_count)} rows of the audit "
        "not chained yet"
    )


def _say_count(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)
