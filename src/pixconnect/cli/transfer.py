"""``pixconnect transfer``: what is under way, for the operator to see."""

from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.cli import operating
from pixconnect.cli.operating import Json
from pixconnect.domain.order import OpenOrder
from pixconnect.domain.transfer import Transfer
from pixconnect.usecases import unresolved as unresolved_usecases

app = App(name="transfer", help="Transfers on their way.")


@app.command
def unresolved(
    *,
    silent_for_s: Annotated[int, Parameter(show_default=True)] = 60,
    holder_id: int | None = None,
    end_to_end_id: str | None = None,
    json: Json = False,
) -> None:
    """Print outgoing transfers that the rail was given and has not answered for, the longest silent first.

    The service goes on asking about each of them, for as long as it takes. There is no verb to settle or fail one by hand: that
    is how money is paid twice.

    Args:
        silent_for_s: Handed over at least so many seconds ago.
        holder_id: Of this holder only.
        end_to_end_id: This one only.
        json: Print one JSON object.
    """
    found = operating.run(
        lambda context: unresolved_usecases.list_unresolved(
            context, timedelta(seconds=silent_for_s), holder_id, end_to_end_id
        )
    )
    operating.show_list("transfers", [_shown(order, transfer) for order, transfer in found], as_json=json)


def _shown(order: OpenOrder, transfer: Transfer) -> operating.Shown:
    return {
        "id": transfer.id,
        "holder_id": transfer.holder_id,
        "end_to_end_id": transfer.end_to_end_id,
        "external_id": transfer.external_id,
        "amount": transfer.amount_cents,
        "handed_at": order.handed_at,
        "asked_count": order.asked_count,
        "next_asked_at": order.due_at,
    }
