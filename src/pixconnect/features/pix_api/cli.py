"""``pixconnect operator charge``: the charges of holders."""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json
from pixconnect.features.pix_api.service import charge as standard_charge

app = App(name="charge", help="The charges of holders.")


@app.command(name="remove")
def remove_charge(*, holder_id: HolderId, txid: Annotated[str, Parameter(help="The charge.")], json: Json = False) -> None:
    """Remove a charge, so that it can no longer be paid. This is permanent: its holder may create another.

    The holder sees it as EXPIRED, or as REMOVIDA_PELO_PSP in the central bank's API, and gets `qrcode.expired`. A paid charge
    cannot be removed, nor one whose payment was accepted and has not settled.

    Args:
        holder_id: Its holder.
    """
    removed = operating.run(standard_charge.remove_charge, holder_id, txid)
    output.show(output.pick(removed, "id txid status"), as_json=json)
