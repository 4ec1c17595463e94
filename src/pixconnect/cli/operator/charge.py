"""``pixconnect operator charge``: holders' charges, as far as an operator has to do with them."""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.operating import HolderId
from pixconnect.cli.frame.output import Json
from pixconnect.usecases.standard import charge_removal

app = App(name="charge", help="The charges of holders.")


@app.command
def remove(*, holder_id: HolderId, txid: Annotated[str, Parameter(help="The charge.")], json: Json = False) -> None:
    """Remove a charge, so that nobody can pay it any more. It is not undone: its holder may make another.

    The holder sees it as EXPIRED, or as REMOVIDA_PELO_PSP at the door of the central bank's API, and is told by
    `qrcode.expired`. One that is paid cannot be removed, nor one whose payment was accepted and has not settled.

    Args:
        holder_id: Whose it is.
    """
    removed = operating.run(lambda context: charge_removal.remove_charge(context, holder_id, txid))
    output.show(output.pick(removed, "id txid status"), as_json=json)
