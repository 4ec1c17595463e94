"""``pixconnect institution``: accounts at institutions, over which live mode moves money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.operating import HolderId, run_with_settings
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.cases.cli import show_proposed
from pixconnect.features.institutions.cli.institution_days import days, statement
from pixconnect.features.institutions.cli.institution_penny import rehearse, send_penny
from pixconnect.features.institutions.cli.opening import AccountName, make_opener, run_with_opener
from pixconnect.features.institutions.rules.account import AccountState, InstitutionAccount
from pixconnect.features.institutions.rules.account_file import AccountDescription, read_account_file
from pixconnect.features.institutions.rules.institution import PermissionTried, ReceivedPix
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import monitoring as alarm_usecases
from pixconnect.features.institutions.service import open_accounts as credential_usecases
from pixconnect.features.institutions.service import proposals as proposal_usecases
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.account import ShownAccount, pause_all
from pixconnect.features.institutions.service.comparison import BalanceThere, read_balance_at_institution
from pixconnect.features.institutions.service.inquiry import InquiryAnswer, ask_named
from pixconnect.features.institutions.service.open_accounts import OpenInstitution
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.features.institutions.service.webhook import RegisteredWebhooks
from pixconnect.features.institutions.statement_files.statement_file import BYTES_MAX
from pixconnect.kernel.feature import list_verbs, read_place
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base import errors
from pixconnect.platform.config import Settings


def ask(name: AccountName, asked: str, *, json: Json = False) -> None:
    """Query the institution about a Pix or a charge now, and record new facts.

    For a sent Pix it records its payee's returns, if the institution lists them. It ends with 1 if the institution does not
    find the name, and with 3 if it gives no answer.

    Args:
        asked: The end-to-end id of a Pix, or the txid of a charge.
    """

    async def do(settings: Settings) -> InquiryAnswer:
        from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help need not

        async with operators.open_operator_beside_service(settings, "pixconnect ask") as (operator, context):
            return await ask_named(context, operator, name, asked)

    says = run_with_settings(do)
    if says.is_unknown:
        what = "Pix received" if says.order is None else f"transfer {says.order.id}, which is {says.order.status} here,"
        raise errors.NotFound(f"asked: the institution knows no {what} under {asked}")
    rows = [_show(says, pix) for pix in says.received]
    if json:
        charge = None if says.charge is None else dict(txid=says.charge.txid, status=says.charge.status)
        output.show(dict(charge=charge, received=rows, sent=_show_sent(says, str)), as_json=True)
        return
    if says.sent is not None:
        output.show(_show_sent(says, show_reais) or {}, as_json=False)
        return
    if says.charge is not None:
        output.show(dict(txid=says.charge.txid, status_there=says.charge.status), as_json=False)
    output.show_list("received", rows, as_json=False)


def _show_sent(says: InquiryAnswer, write: Callable[[int], str]) -> Shown | None:
    sent, order = says.sent, says.order
    if sent is None or order is None:
        return None
    returns = [f"{one.return_id}: {write(one.amount_cents)}" for one in sent.returns]
    here = "transfer_id=id holder_id status_here=status amount_here_cents=amount_cents returned_here_cents=returned_cents"
    return dict(
        **output.pick(sent, "end_to_end_id status_there=status amount_there_cents=amount_cents settled_at"),
        returns_there=(returns or None) if says.lists_returns else "not reported by this institution",
        **output.pick(order, here),
    )


def _show(says: InquiryAnswer, pix: ReceivedPix) -> Shown:
    here = says.now.get(pix.end_to_end_id)
    return dict(
        end_to_end_id=pix.end_to_end_id,
        recorded=says.find_when_recorded(pix.end_to_end_id),
        not_recorded_because=says.explain_missing(pix),
        amount_there_cents=pix.amount_cents,
        amount_here_cents=here and here.amount_cents,
        **output.pick(pix, "settled_at txid key"),
        returns_there=[f"{one.id}: {one.status}" for one in pix.refunds] or None,
        transfer_id=here and here.id,
        holder_id=here and here.holder_id,
        status_here=here and here.status,
    )


def close(name: AccountName, *, statement: Path, json: Json = False) -> None:
    """Propose to close an account whose institution is gone for good; another operator confirms it.

    Args:
        statement: Its final statement file, which is recorded as any other, and has the closing balance.
    """
    content = operating.load_file(statement, BYTES_MAX)
    show_proposed(operating.run_writing(proposal_usecases.propose_closing, name, content), as_json=json)


def release(name: AccountName, *, key: str, json: Json = False) -> None:
    """Propose to release a removed Pix key that waits for a reading of an account which can no longer be read.

    Args:
        key: The key, with or without punctuation.
    """
    show_proposed(operating.run(proposal_usecases.propose_release, name, key), as_json=json)


File = Annotated[Path, Parameter(help="The TOML file that describes the account.")]

_GIVEN: Final[dict[bool | None, tuple[str, str, terminal.Colour]]] = {
    True: ("✓", "yes", "green"), False: ("✗", "no", "red"), None: ("?", "unknown", "yellow"),
}  # fmt: skip

app = App(name="institution", help="Accounts at institutions.")
webhooks = App(name="webhook", help="An account's webhooks registered at the institution.")
app.command(statement)
app.command(days)
for _verb in list_verbs("below institution"):
    app.command(read_place(_verb.place), name=_verb.name)
app.command(close)
app.command(release)
app.command(webhooks)
app.command(ask)
app.command(rehearse)


@app.command
def add(
    name: AccountName,
    *,
    file: File,
    house: HolderId,
    opening_balance: Annotated[int | None, WHOLE_NUMBER] = None,
    json: Json = False,
) -> None:
    """Add an account: reads its balance, and begins its books with that. Live mode only.

    Args:
        name: Its name in other verbs: small letters, digits and dashes.
        file: The TOML file that describes it.
        house: The holder of the account's unassigned money; it needs the owner's CPF or CNPJ, and no money.
        opening_balance: Its balance, in cents, if the institution's API has none.
    """
    description = _read_file(file)
    opener = make_opener()

    async def do(operator: Operator, writes: Writer) -> None:
        from pixconnect.features.institutions.opener import read_text_file  # noqa: PLC0415  help needs none of it

        account = await account_usecases.add_account(
            operator, opener, name, description, house, opening_balance, read_text_file
        )
        await post_opening(writes, account)

    operating.run_writing(do)
    show(name, json=json)


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List the accounts."""
    found = operating.run(account_usecases.list_institutions)
    output.show_list("institutions", [_shown(one) for one in found], as_json=json)


@app.command
def show(name: AccountName, *, json: Json = False) -> None:
    """Print an account, with its balance by our books and by the institution."""

    async def read(context: Operator, opener: OpenInstitution) -> Shown:
        shown = await account_usecases.read_account(context, name)
        there = await read_balance_at_institution(context, opener, shown.account)
        days = await day_usecases.read_how(context, opener, shown.account)
        alarm: Shown = dict(alarm=await alarm_usecases.describe_alarm(context, shown.account.id))
        try:
            webhook = (await webhook_usecases.read_webhooks(context, opener, name)).whose or "none"
        except errors.ServiceUnavailable:
            webhook = None
        closing = "days_from=source days_close_by_themselves=close_by_themselves days_read_at=last_read_at days_failure=failure"
        return _shown(shown, there, webhook) | alarm | output.pick(days, closing)

    output.show(run_with_opener(read), as_json=json)


@app.command
def check(
    name: AccountName,
    *,
    penny: str | None = None,
    key_type: KeyType | None = None,
    yes: Annotated[bool, Parameter(negative=())] = False,
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 600.0,
    json: Json = False,
) -> None:
    """Try each permission without moving money; print when certificates expire, and the registered callbacks.

    It ends with 6 if a permission is missing.

    With `--penny` one cent is sent instead, as any transfer of the account's house: the services must run, and `institution
    allow` must permit it. It prints the known fee, asks, follows the transfer, and waits until its receiver has returned
    something by hand; it ends with 5 if the transfer fails or nothing comes back in time.

    Args:
        penny: A Pix key of a person who will return one cent.
        key_type: The key's type; by default derived from its form.
        yes: Do not ask.
        timeout: How many seconds to wait for both.
    """
    if penny is not None:
        send_penny(name, penny, key_type=key_type, is_agreed=yes, timeout_s=timeout, as_json=json)
        return

    async def do(context: Operator, opener: OpenInstitution) -> tuple[Sequence[PermissionTried], Sequence[PermissionTried]]:
        account = (await account_usecases.read_account(context, name)).account
        tried = await credential_usecases.try_permissions(context, opener, account)
        return tried, webhook_usecases.judge_webhooks(await webhook_usecases.read_webhooks(context, opener, name))

    tried, webhooks = run_with_opener(do)
    show_permissions((*tried, *webhooks), as_json=json)
    # Without a webhook, payments are only found by polling.
    if missing := [one.name for one in tried if one.is_given is False]:
        raise CommandError(f"missing on {name}: {', '.join(missing)}", status=ExitStatus.FOUND)


def show_permissions(tried: Sequence[PermissionTried], *, as_json: bool) -> None:
    if as_json:
        shown: list[Shown] = [
            dict(permission=one.name, given=_GIVEN[one.is_given][1], explanation=one.explanation or None) for one in tried
        ]
        output.show_list("permissions", shown, as_json=True)
        return
    for one in tried:
        mark, given, colour = _GIVEN[one.is_given]
        why = f": {terminal.on_one_line(one.explanation)}" if one.explanation else ""
        terminal.print_line(f"{terminal.paint(f'{mark} {given:<7}', colour)}  {one.name}{why}")


@app.command
def pause(
    name: Annotated[str, Parameter(help="The account; left out with --all.")] = "",
    *,
    all: Annotated[bool, Parameter(negative=())] = False,  # noqa: A002  it is the option's name
) -> None:
    """Stop outgoing money until resumed; credits are recorded, charges are opened, orders are queried.

    Args:
        all: Every account.
    """
    if bool(name) == all:
        raise CommandError("name one account, or all of them with --all")
    failed: Sequence[str] = ()
    if name:
        _set_state(name, "paused")
    else:
        paused, failed = operating.run(pause_all)
        for line in [f"{one} is paused" for one in paused] or ([] if failed else ["no account"]):
            terminal.print_line(line)
    operating.wait_until_in_force()
    if failed:
        raise CommandError(f"all: these were not paused: {', '.join(failed)}; all others were")


@app.command
def resume(name: AccountName) -> None:
    """Resume outgoing money; after an alarm this confirms that the observed payments are yours."""
    _set_state(name, "active")


@app.command
def rotate(name: AccountName, *, file: File, json: Json = False) -> None:
    """Replace credentials, certificates, addresses, keys and options from a changed file. Never another owner or institution.

    Other addresses and authorities (`ca_file`) are proposed: another operator confirms them by `proposal confirm`.

    Args:
        name: The account.
        file: The TOML file that describes it now.
    """
    from pixconnect.features.institutions.opener import read_text_file  # noqa: PLC0415  help needs none of it

    operating.run(account_usecases.rotate_account, name, _read_file(file), read_text_file)
    show(name, json=json)


@app.command
def remove(name: AccountName) -> None:
    """Remove an account without holders and without activity for 90 days, with its credentials."""
    left = run_with_opener(webhook_usecases.withdraw_webhooks, name)
    operating.run(account_usecases.remove_account, name)
    if left is not None:
        terminal.print_line(f"look at the registered webhook: {terminal.on_one_line(left)}")
    terminal.print_line(f"{name} is removed")


@webhooks.command(name="show")
def show_webhooks(name: AccountName, *, json: Json = False) -> None:
    """List the registered webhooks, and their owners."""
    _show_registered(run_with_opener(webhook_usecases.read_webhooks, name), json=json)


@webhooks.command(name="set")
def register_webhook(
    name: AccountName,
    *,
    replace: Annotated[bool, Parameter(negative=())] = False,
    new_secret: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Register our address at the institution for each key: PIXCONNECT_CALLBACK_BASE_URL, the account's name and a secret.

    Args:
        replace: Also replace another registered address, which is saved for restore.
        new_secret: Make another secret; calls to the earlier address are refused.
    """
    there = run_with_opener(webhook_usecases.set_webhooks, name, replaces=replace, has_new_secret=new_secret)
    _show_registered(there, json=json)


@webhooks.command(name="restore")
def restore_webhook(name: AccountName, *, json: Json = False) -> None:
    """Restore the webhook that ours replaced, or none."""
    there = run_with_opener(webhook_usecases.restore_webhooks, name)
    _show_registered(there, json=json)


def _set_state(name: str, state: AccountState) -> None:
    account = operating.run(account_usecases.set_state, name, state)
    terminal.print_line(f"{account.name} is {account.state}")


def _shown(shown: ShownAccount, there: BalanceThere | None = None, webhook: str | None = None) -> Shown:
    account: InstitutionAccount = shown.account
    there = there or BalanceThere()
    allowed = "refunds_day_cents transfer_cents transfers_day_cents to=payees by=allowed_by"
    return dict(
        **output.pick(account, "name kind profile environment state paused_because lost_at"),
        certificates=[f"{one.used.part} {one.text}" for one in shown.ending] or None,
        house=account.house_id,
        holders=list(shown.holder_ids),
        keys=list(account.keys),
        webhook=webhook,
        balance_there_cents=there.cents,
        balance_there_means=there.means,
        balance_there_at=there.read_at,
        balance_here_cents=shown.balance_here_cents,
        opened_at=account.opened_at,
        last_reading_at=shown.last_reading_at,
        last_failure=shown.last_failure,
        waiting=[one.text for one in shown.waiting] or None,
        allowed=output.pick(shown.allowance, allowed),
    )


def _read_file(file: Path) -> AccountDescription:
    from pixconnect.features.institutions.opener import read_text_file  # noqa: PLC0415  help needs none of it

    # The file's own relative paths start at its folder.
    return read_account_file(read_text_file(str(file)), lambda path: read_text_file(str(file.parent / path)))


def _show_registered(there: RegisteredWebhooks, *, json: bool) -> None:
    kept = {each.key: each.url for each in there.kept}
    rows: list[Shown] = [
        dict(key=each.key, url=each.url, whose=each.whose or "nobody's", kept=kept.get(each.key or "")) for each in there.found
    ]
    if json:
        output.show(dict(address=there.address, webhooks=rows), as_json=True)
    else:
        output.show_list("webhooks", rows, as_json=False)
