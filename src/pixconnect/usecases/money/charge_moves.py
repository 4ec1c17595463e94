"""Marks a charge as paid, on every road; ``domain/money/charge_payment.py`` decides which charge a payment pays."""

from __future__ import annotations

from pixconnect.domain.money.charge import Charge, pay_charge, pay_charge_there
from pixconnect.domain.money.transfer import Transfer
from pixconnect.writing.unit_of_work import UnitOfWork


def mark_paid(work: UnitOfWork, charge: Charge, transfer: Transfer) -> Charge:
    """Mark a charge as paid by a transfer that has settled, and announce it."""
    pay = pay_charge if charge.institution_id is None else pay_charge_there
    paid = pay(charge, transfer.amount_cents, work.now)
    work.changes.move_charge(charge, paid)
    work.announce_charge(paid, "qrcode.approved")
    return paid
