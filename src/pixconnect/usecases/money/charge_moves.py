"""Changes of charges that several use cases make; ``domain/money/charge_payment.py`` decides which charge a payment pays."""

from __future__ import annotations

from datetime import datetime

from pixconnect.domain.due import day_amount
from pixconnect.domain.due.day_amount import DayAmount
from pixconnect.domain.money.charge import (
    Charge,
    announce_charge,
    compose_amount,
    pay_charge,
    pay_charge_there,
    read_contents,
)
from pixconnect.domain.money.charge_contents import digest_contents
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.money.charge import CHARGES, PAID_AMOUNTS
from pixconnect.store.standard.charge_revision import REVISIONS, ChargeRevision
from pixconnect.writing.unit_of_work import UnitOfWork


def mark_paid(work: UnitOfWork, charge: Charge, transfer: Transfer) -> Charge:
    """Mark a charge as paid by a transfer that has settled, and announce it."""
    pay = pay_charge if charge.institution_id is None else pay_charge_there
    paid = pay(charge, transfer.amount_cents, work.now)
    work.move(CHARGES, charge, paid)
    work.announce(announce_charge, paid, "qrcode.approved")
    return paid


def revise_charge(work: UnitOfWork, before: Charge, after: Charge) -> None:
    """Change anything of a charge; the contents that a revision replaces are kept."""
    work.move(CHARGES, before, after)
    if after.revision != before.revision:
        revision = ChargeRevision(
            charge_id=before.id,
            holder_id=before.holder_id,
            revision=before.revision or 0,
            contents=read_contents(before),
            next_digest=digest_contents(read_contents(after)),
        )
        work.put(REVISIONS, revision)


def keep_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, reported_at: datetime) -> None:
    """Keep the parts of a payment that pays or holds a charge with a due date."""
    amount = compose_amount(charge, reported_at)
    if amount is not None:
        work.put(PAID_AMOUNTS, day_amount.keep_parts(amount, transfer.id, transfer.holder_id, charge.id))


def keep_reported_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, reported: DayAmount | None) -> None:
    """Keep the parts that an institution reports of such a payment, if they sum up to the amounts of both."""
    if charge.due_on is None or reported is None:
        return
    if (reported.total_cents, reported.original_cents) == (transfer.amount_cents, charge.amount_cents):
        work.put(PAID_AMOUNTS, day_amount.keep_parts(reported, transfer.id, transfer.holder_id, charge.id))
