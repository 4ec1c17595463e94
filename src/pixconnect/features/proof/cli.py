"""``pixconnect verify``: proves the books."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import to_builtins

from pixconnect.doors.cli import failures, operating, output, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.operating import TheHolder, run_with_settings
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.settings import complaining_of_home, read_database_settings
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.proof.rules import ChainedEntry, ChainHead, format_heads, parse_heads
from pixconnect.features.proof.service import verify as verify_usecases
from pixconnect.features.proof.service.rule_group import BookReader
from pixconnect.features.proof.service.verify import ProofRequest, Verification
from pixconnect.kernel.rules.proof import Rule
from pixconnect.platform.base.clock import format_local
from pixconnect.platform.config import Settings
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.logging import set_up_logging

_LENGTH_MAX: Final = 1 << 30  # maximum of a file of heads, in octets: a line for each of some million holders

Answer = TypeVar("Answer")

heads_app = App(name="heads", help="What the chains have come to.")


@heads_app.command
def write(file: Path | None = None, *, json: Json = False) -> None:
    """Write the last head of each chain to a new file, to be kept out of reach of everyone who can write the database.

    Args:
        file: A new file; an existing one is never overwritten. Without one, the lines go to standard output.
    """
    heads = run_with_settings(lambda settings: _read(settings, lambda reader: verify_usecases.list_heads(reader.connection)))
    if file is None:
        terminal.print_line(format_heads(heads).decode().removesuffix("\n"))
        return
    try:
        with file.open("xb") as opened:
            opened.write(format_heads(heads))
            # The database's own copy may be deleted next, so this one must be durable.
            opened.flush()
            os.fsync(opened.fileno())
    except FileExistsError:
        raise CommandError(f"{file}: is there already; heads are written to a new file") from None
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    output.show(dict(file=str(file), holders=sum(head.chain is None for head in heads)), as_json=json)


async def _read(settings: Settings, do: Callable[[BookReader], Awaitable[Answer]]) -> Answer:
    from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help and wrong options need not

    async with operators.open_book_reader(settings) as reader:
        return await do(reader)


def read_heads(files: Sequence[Path]) -> list[ChainHead]:
    heads = list[ChainHead]()
    for file in files:
        try:
            heads += parse_heads(read_named_file(file, _LENGTH_MAX).splitlines())
        except OSError as error:
            raise CommandError(f"--heads: {file}: {error.strerror or error}") from None
    return heads


def entry(entry_id: Annotated[int, WHOLE_NUMBER], *, holder_id: TheHolder, json: Json = False) -> None:
    """Show an entry with all inputs of its link in the chain; the exit status is 7 if one does not follow.

    Args:
        entry_id: The entry.
    """

    def look(reader: BookReader) -> Awaitable[ChainedEntry]:
        return verify_usecases.show_entry(reader.connection, entry_id, holder_id)

    found = run_with_settings(lambda settings: _read(settings, look))
    shown: output.Shown = {
        **output.pick(found, "holder_id entry_id facts person"),
        "salt": _hex(found.salt),
        "person_digest": _hex(found.person_digest),
        "digest": found.digest.hex(),
        **output.pick(found, "link=position place"),
        "digests": [digest.hex() for digest in found.digests],
        "head_before": _hex(found.head_before),
        "head": found.head.hex(),
        **output.pick(found, "chained_at is_as_chained"),
    }
    # There may be thousands, which are for programs.
    if not json:
        shown.pop("digests")
    output.show(shown, as_json=json)
    if not found.is_as_chained:
        raise CommandError("the entry is not as it was chained", status=ExitStatus.BROKEN)


def _hex(octets: bytes | None) -> str | None:
    return None if octets is None else octets.hex()


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
    """Check the books, and print violations.

    It only reads, beside the running service. The exit status is 0 if nothing is wrong, 7 if something is, and 3 if the check
    failed. An interrupted whole run continues when it is run again.

    Args:
        whole: Check everything, and not only changes since the last run.
        rule: Check this rule only, on everything.
        again_after_s: Findings are checked again after so many seconds, and count if they persist.
        heads: A file from `verify heads write`, or a worker's log of JSON lines: the chains must contain its heads.
    """
    settings = read_database_settings()
    set_up_logging(settings.log_format, "warning")
    from pixconnect.platform.database_failure import DATABASE_FAILED  # noqa: PLC0415  it takes long to import

    request = ProofRequest(
        extent="whole" if whole or rule else "changes", rules=rule, again_after_s=again_after_s, heads=read_heads(heads)
    )

    def report_progress(holders_count: int, found_count: int) -> None:
        terminal.notice(f"{holders_count} holders looked at, {found_count} to be looked at again")

    try:
        with complaining_of_home(settings):
            found = asyncio.run(_read(settings, lambda reader: verify_usecases.verify(reader, request, report_progress)))
    except CommandError as error:
        raise CommandError(str(error), status=ExitStatus.UNAVAILABLE) from None
    except DATABASE_FAILED as error:
        why = failures.explain(error) or f"the database was lost ({type(error).__name__})"
        raise CommandError(f"{why}; then run it again", status=ExitStatus.UNAVAILABLE) from error
    rules = {each.name: each for each in verify_usecases.choose_rules(request)}
    if json:
        output.show_json(_shown(found, rules))
    else:
        _print_result(found, rules)
        if settings.database_cluster and found.waiting_cluster != settings.database_cluster:
            terminal.notice("commits wait for no standby: if a standby takes over now, answers may be forgotten")
    if found.findings:
        raise CommandError(f"{len(found.findings)} findings", status=ExitStatus.BROKEN)
    if found.unreadable_count:
        raise CommandError(f"{found.unreadable_count} rules could not be asked", status=ExitStatus.UNAVAILABLE)


def _shown(found: Verification, rules: Mapping[str, Rule]) -> output.Shown:
    return dict(
        rules=sum(each.verdict == "checked" for each in found.judgements),
        broken=len({finding.rule for finding in found.findings}),
        holders=found.holders_count,
        unchained=found.unchained_count,
        unchained_audit=found.unchained_audit_count,
        waiting_cluster=found.waiting_cluster,
        judgements=[to_builtins(each) for each in found.judgements],
        findings=[
            output.pick(each, "rule holder_id ids expected found since") | output.pick(rules[each.rule], "meaning do=todo")
            for each in found.findings
        ],
    )


def _print_result(found: Verification, rules: Mapping[str, Rule]) -> None:
    for finding in found.findings:
        whose = "" if finding.holder_id is None else f" of holder {finding.holder_id}"
        # It contains names given by callers and institutions, which may look like one of our lines.
        terminal.print_line(
            f"{terminal.paint('!', 'red')} {finding.rule}: {terminal.on_one_line(' '.join(finding.ids))}{whose}"
        )
        rule = rules[finding.rule]
        lines = (
            f"it should be: {rule.says}",
            f"expected {finding.expected}, found {finding.found}",
            "" if finding.since is None else f"since {format_local(finding.since)}",
            f"it may mean: {rule.meaning}",
            f"do: {rule.todo}",
        )
        for line in filter(None, lines):
            terminal.print_line(f"    {terminal.on_one_line(line)}")
    for each in found.judgements:
        if each.verdict != "checked":
            where = f" at {each.account}" if each.account else ""
            terminal.print_line(f"{terminal.paint('~', 'yellow')} {each.rule}{where}: {each.verdict}, {each.reason}")
    checked_count = sum(each.verdict == "checked" for each in found.judgements)
    terminal.print_line(
        f"{checked_count} rules, {found.holders_count} holders, {len(found.findings)} findings, "
        f"{_format_count(found.unchained_count)} entries and {_format_count(found.unchained_audit_count)} rows of the audit "
        "not chained yet"
    )


def _format_count(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)
