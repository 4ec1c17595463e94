"""``pixconnect operator transfer``: holders' transfers that wait for an operator's yes."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.operating import HolderId
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.usecases.money import approval as approval_usecases
from pixconnect.usecases.money.approval import WaitingTransfer

TransferId = Annotated[int, WHOLE_NUMBER, Parameter(name="id", help="The transfer.", validator=Number(gte=1, lt=2**53))]

app = App(name="transfer", help="Transfers that wait for an operator's yes.")


@app.command(name="list")
def list_to_approve(*, holder_id: HolderId | None = None, json: Json = False) -> None:
    """Print transfers that wait for an operator's yes, those first that have to be approved soonest.

    Args:
        holder_id: Of this holder only.
    """
    found = operating.run(lambda context: approval_usecases.list_waiting_transfers(context, holder_id))
    output.show_list("transfers", [_shown(each) for each in found], as_json=json)


@app.command
def approve(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Let a transfer leave that waits for it; it is not undone. Repeating it changes nothing."""
    _decide(transfer_id, is_approved=True, as_json=json)


@app.command
def refuse(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Cancel a transfer that waits, so that its money comes back; it is not undone. Repeating it changes nothing.

    The worker gives it back within seconds. Of what waited while the database was started anew it asks the rail first, and the
    money comes back once the rail says that it never came: 12 hours after the transfer was made at the latest.
    """
    _decide(transfer_id, is_approved=False, as_json=json)


def _decide(transfer_id: int, *, is_approved: bool, as_json: bool) -> None:
    said = operating.run(
        lambda context: approval_usecases.decide_transfer(context, transfer_id, is_approved=is_approved)
    )
    shown: output.Shown = dict(
        id=transfer_id,
        end_to_end_id=said.order_name,
        decision="approved" if said.is_approved else "refused",
        decided_by=said.decided_by,
        decided_at=said.decided_at,
    )
    output.show(shown, as_json=as_json)


def _shown(each: WaitingTransfer) -> output.Shown:
    payee = each.transfer.counterparty
    return {
        **output.pick(each.transfer, "id holder_id amount_cents"),
        **output.pick(payee, "payee=name tax_id key"),
        "account": f"{payee.ispb} {payee.branch} {payee.account_number}",
        "paid_before": each.paid_count,
        **output.pick(each.pending, "is_above is_new_payee since"),
        "until": each.order.give_up_at,
    }
