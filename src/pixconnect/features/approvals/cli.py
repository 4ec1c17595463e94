"""``pixconnect operator transfer``: transfers that wait for an operator's approval."""

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.approvals import service as approval_usecases
from pixconnect.features.approvals.service import WaitingTransfer

app = App(name="transfer", help="Transfers that wait for approval.")

TransferId = Annotated[int, WHOLE_NUMBER, Parameter(name="id", help="The transfer.", validator=Number(gte=1, lt=2**53))]


@app.command(name="list")
def list_to_approve(*, holder_id: HolderId | None = None, json: Json = False) -> None:
    """Print transfers that wait for an operator's approval, soonest deadline first.

    Args:
        holder_id: Of this holder only.
    """
    found = operating.run(approval_usecases.list_waiting_transfers, holder_id)
    output.show_list("transfers", [_shown_waiting(each) for each in found], as_json=json, money=("amount",))


@app.command
def approve(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Approve a waiting transfer; this is permanent. Repeating it changes nothing."""
    _decide(transfer_id, is_approved=True, as_json=json)


@app.command
def refuse(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Cancel a waiting transfer and release its money; this is permanent. Repeating it changes nothing.

    The worker releases the money within seconds. If the database was restarted while the transfer waited, the worker queries
    the rail first, and releases the money once the rail reports that the transfer never came: at the latest 12 hours after its
    creation.
    """
    _decide(transfer_id, is_approved=False, as_json=json)


def _decide(transfer_id: int, *, is_approved: bool, as_json: bool) -> None:
    answer = operating.run(approval_usecases.decide_transfer, transfer_id, is_approved=is_approved)
    shown: output.Shown = dict(
        id=transfer_id,
        end_to_end_id=answer.order_name,
        decision="approved" if answer.is_approved else "refused",
        decided_by=answer.decided_by,
        decided_at=answer.decided_at,
    )
    output.show(shown, as_json=as_json)


def _shown_waiting(each: WaitingTransfer) -> output.Shown:
    payee = each.transfer.counterparty
    return {
        **output.pick(each.transfer, "id holder_id amount=amount_cents"),
        **output.pick(payee, "payee=name tax_id key"),
        "account": f"{payee.ispb} {payee.branch} {payee.account_number}",
        "paid_before": each.paid_count,
        **output.pick(each.pending, "is_above is_new_payee"),
        "held_by": each.hold,
        **output.pick(each.pending, "since"),
        "until": each.order.give_up_at,
    }
