"""``pixconnect institution allow`` and ``unmatched``: permitted outgoing money, and credits without a charge."""

from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec.structs import asdict

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import Payees, WantedAllowance
from pixconnect.features.institutions.cli.opening import AccountName, run_with_opener
from pixconnect.features.institutions.service import returns as give_back_usecases
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.open_accounts import OpenInstitution
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.proposal import Proposal

_COLUMNS: Final = (
    "settled_at", "holder", "end_to_end_id", "txid", "amount_cents", "returned_cents", "given_back", "reason",
)  # fmt: skip


def allow(
    name: AccountName,
    *,
    refunds: Annotated[int | None, WHOLE_NUMBER] = None,
    per_transfer: Annotated[int | None, WHOLE_NUMBER] = None,
    per_day: Annotated[int | None, WHOLE_NUMBER] = None,
    to: Payees | None = None,
    json: Json = False,
) -> None:
    """Permit outgoing money of an account; a reduction acts at once, more waits an hour, and for another operator.

    If nothing could be sent before, unstated limits of transfers are 10000 each, 100000 a day, to the account's owner.

    Args:
        refunds: Sum of refunds in cents, a day of Sao Paulo, over all holders on it; 0 is none.
        per_transfer: The maximum of one transfer, in cents; 0 is none.
        per_day: Sum of transfers in cents, as of refunds.
        to: The permitted payees: the account's owner, also payees already paid over it, or all.
    """
    wanted = WantedAllowance(refunds_day_cents=refunds, transfer_cents=per_transfer, transfers_day_cents=per_day, payees=to)

    async def do(context: Operator, opener: OpenInstitution) -> Proposal | None:
        if wanted.sends:
            await webhook_usecases.check_keys_pay(context, opener, name)
        return await allowance_usecases.allow(context, name, wanted)

    proposed = run_with_opener(do)
    changes: Shown = {member: value for member, value in asdict(wanted).items() if value is not None}
    if proposed is None:
        output.show(dict(name=name) | changes | dict(acts_now=True), as_json=json)
    else:
        waits: Shown = dict(acts_now=False, code=proposed.code, confirmable_at=proposed.confirmable_at)
        output.show(dict(name=name) | dict(proposed.contents) | waits, as_json=json)
        terminal.notice(f"nothing is changed yet: another operator runs `pixconnect proposal confirm {proposed.code}`")


def unmatched(
    name: AccountName,
    *,
    days: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=400))] = 7,
    json: Json = False,
) -> None:
    """List credits on an account that pay no charge, and whether they are returned automatically.

    Args:
        days: Number of days.
    """
    found = operating.run(give_back_usecases.list_without_charge, name, days)
    amounts = "amount_cents returned_cents returning_cents"
    columns = f"settled_at holder=holder_id end_to_end_id txid {amounts} given_back reason"
    shown = [output.pick(credit, columns) for credit in found]
    output.show_list("unmatched", shown, as_json=json, columns=_COLUMNS)
