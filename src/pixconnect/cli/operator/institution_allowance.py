"""``pixconnect institution allow`` and ``unmatched``: what may leave over an account, and what came in and pays no charge."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.output import Json, Shown
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.cli.operator.institution_opening import AccountName
from pixconnect.domain.institutions.give_back import UnmatchedCredit
from pixconnect.usecases.institutions import allowance as allowance_usecases
from pixconnect.usecases.institutions import give_back as give_back_usecases

_COLUMNS: Final = (
    "settled_at", "holder", "end_to_end_id", "txid", "amount_cents", "returned_cents", "given_back", "reason",
)  # fmt: skip


def allow(name: AccountName, *, refunds: Annotated[int, WHOLE_NUMBER], json: Json = False) -> None:
    """Allow refunds over an account up to a sum a day; 0 is none. A raise waits an hour, and for another operator.

    Args:
        refunds: In cents, a day of Sao Paulo, over all holders on it.
    """
    proposed = operating.run(lambda context: allowance_usecases.allow(context, name, refunds))
    shown: Shown = dict(name=name, refunds_day_cents=refunds, acts_now=proposed is None)
    waits: Shown = {} if proposed is None else dict(confirmable_at=proposed.confirmable_at)
    output.show(shown | waits, as_json=json)


def unmatched(
    name: AccountName,
    *,
    days: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=400))] = 7,
    json: Json = False,
) -> None:
    """List what came in on an account and pays no charge, and whether it goes back by itself.

    Args:
        days: Of how many days.
    """
    found = operating.run(lambda context: give_back_usecases.list_without_charge(context, name, days))
    output.show_list(
        "unmatched",
        [_shown(credit) for credit in found],
        as_json=json,
        columns=_COLUMNS,
        money=("amount_cents", "returned_cents"),
    )


def _shown(credit: UnmatchedCredit) -> Shown:
    return dict(
        settled_at=credit.settled_at,
        holder=credit.holder_id,
        end_to_end_id=credit.end_to_end_id,
        txid=credit.txid,
        amount_cents=credit.amount_cents,
        returned_cents=credit.returned_cents,
        returning_cents=credit.returning_cents,
        given_back=credit.given_back,
        reason=credit.reason,
    )
