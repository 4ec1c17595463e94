"""Transfers between two of our holders: they settle by book, in the transaction that accepts them."""

from typing import Final

from pixconnect.kernel.flows.charge import finish_payment, keep_parts
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.charge import compose_amount
from pixconnect.kernel.rules.charge_payment import ChargePayment, decide_charge
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors

_BETWEEN: Final = "nothing is sent between two accounts at institutions of this service yet; nothing was done"


async def check_same_place(context: Context, payer: OwnAccount, payee_id: int) -> None:
    """Refuse a book transfer between holders on two accounts at institutions: that would be a real Pix."""
    payee = await context.directory.read_account(payee_id)
    if payer.institution_id != payee.institution_id:
        # One of them may have been put on its account since this process read it.
        payer = await context.directory.read_account_anew(payer.holder_id)
        payee = await context.directory.read_account_anew(payee_id)
    if payer.institution_id != payee.institution_id:
        raise errors.ServiceUnavailable(_BETWEEN)


def settle_by_book(work: UnitOfWork, new: NewTransfer, payee_id: int, sent: Transfer) -> Transfer:
    """Settle a transfer between two of our holders, or fail it as over the rail."""
    scanned = new.payee.charge
    name = (0, 0) if scanned is None else (scanned.id, scanned.holder_id)
    payment = ChargePayment(
        holder_id=payee_id,
        account_id=work.balances[payee_id].institution_id,
        txid=sent.txid,
        amount_cents=sent.amount_cents,
        at=work.now,
        is_refusable=not new.payee.is_static,
    )
    decision = decide_charge(work.charges.get(name), payment)
    received = transfer_rules.open_other_side(new, sent, payee_id, decision.charge)
    work.announce_transfer(received)
    code = decision.reject_code if work.balances[payee_id].may_deposit else reject_code.ACCOUNT_BLOCKED
    if code is not None:
        refused = code, reject_code.explain(code), work.now
        sent, received = (transfer_rules.fail_transfer(side, *refused) for side in (sent, received))
    else:
        sent = transfer_rules.settle_transfer(sent, work.now)
        received = transfer_rules.settle_transfer(received, work.now)
        work.post(sent.holder_id, "available", "settlement", sent.amount_cents, sent.cause)
        work.post(payee_id, "settlement", "available", sent.amount_cents, received.cause)
    # Each side has its own events: processing was announced before, the end is announced now.
    for side in (sent, received):
        work.announce_transfer(side)
        work.put(TRANSFERS, side)
    if code is None:
        if decision.charge is not None:
            keep_parts(work, received, decision.charge, compose_amount(decision.charge, work.now))
        finish_payment(work, received, name, decision.divergences)
    return sent
