"""``pixconnect institution ask``: what an institution says of one Pix or charge now."""

from __future__ import annotations

from pixconnect.cli.frame import output
from pixconnect.cli.frame.operating import run_with_settings
from pixconnect.cli.frame.output import Json, Shown
from pixconnect.cli.operator.institution_opening import AccountName
from pixconnect.config import Settings
from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.institution import ReceivedPix
from pixconnect.usecases.institutions.inquiry import InquiryAnswer


def ask(name: AccountName, asked: str, *, json: Json = False) -> None:
    """Read a Pix or a charge at the institution now, and record what came in and is not recorded yet.

    It ends with 1 where the institution knows nothing of that name, and with 3 where it gives no answer.

    Args:
        asked: The end-to-end id of a Pix, or the txid of a charge.
    """

    async def do(settings: Settings) -> InquiryAnswer:
        from pixconnect.assembly import inquiry  # noqa: PLC0415  it imports everything; help need not

        return await inquiry.ask(settings, name, asked)

    says = run_with_settings(do)
    if says.is_unknown:
        raise errors.NotFound(f"asked: the institution knows nothing of {asked}")
    rows = [_show(says, pix) for pix in says.received]
    if json:
        charge = None if says.charge is None else dict(txid=says.charge.txid, status=says.charge.status)
        output.show(dict(charge=charge, received=rows), as_json=True)
        return
    if says.charge is not None:
        output.show(dict(txid=says.charge.txid, status_there=says.charge.status), as_json=False)
    output.show_list("received", rows, as_json=False, money=("amount_there_cents", "amount_here_cents"))


def _show(says: InquiryAnswer, pix: ReceivedPix) -> Shown:
    here = says.now.get(pix.end_to_end_id)
    return dict(
        end_to_end_id=pix.end_to_end_id,
        recorded=says.find_when_recorded(pix.end_to_end_id),
        amount_there_cents=pix.amount_cents,
        amount_here_cents=here and here.amount_cents,
        settled_at=pix.settled_at,
        txid=pix.txid,
        key=pix.key,
        returns_there=[f"{one.id}: {one.status}" for one in pix.refunds] or None,
        transfer_id=here and here.id,
        holder_id=here and here.holder_id,
        status_here=here and here.status,
    )
