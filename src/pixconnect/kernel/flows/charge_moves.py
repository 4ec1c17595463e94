"""Changes of charges that several use cases make. ``kernel/rules/charge_payment.py`` decides which charge a payment pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.charge import Charge, announce_charge, pay_charge, read_contents, return_charge
from pixconnect.kernel.rules.charge_contents import DayAmount, digest_contents
from pixconnect.kernel.rules.divergence import announce_divergence
from pixconnect.kernel.rules.event import Divergence
from pixconnect.kernel.rules.transfer import Transfer, return_part
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.charge_revision import REVISIONS, ChargeRevision
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors


def finish_payment(
    work: UnitOfWork, received: Transfer, name: tuple[int | str, int], divergences: tuple[Divergence, ...]
) -> None:
    """Mark a settled transfer's charge as paid, and emit both events with any divergence of the payment.

    Args:
        work: Its balances and charges are locked.
        received: The payee's side. Without a ``charge_id`` it pays no charge, even if it names one.
        name: The txid that the payment names.
        divergences: As decided before the payment.
    """
    named = work.charges.get(name)
    if received.charge_id is not None:
        charge = errors.require(named, "a charge that is paid is locked")
        paid = work.charges[name] = pay_charge(charge, received.amount_cents, work.now)
        work.move(CHARGES, charge, paid)
        work.announce(announce_charge, paid, "qrcode.approved")
    if divergences:
        work.announce(announce_divergence, received, named, divergences)


def count_returned(work: UnitOfWork, transfer: Transfer, amount_cents: int, *, returning_cents: int = 0) -> None:
    """Count a part of a transfer as returned, of which ``returning_cents`` were reserved; mark its charge once all is."""
    after = return_part(transfer, amount_cents, work.now, returning_cents=returning_cents)
    # The next refund of the same transfer in this batch counts from here.
    work.transfers[after.id, after.holder_id] = after
    work.move(TRANSFERS, transfer, after)
    if after.status == "RETURNED" and after.charge_id is not None:
        name = after.charge_id, after.holder_id
        charge = work.charges[name]
        work.charges[name] = return_charge(charge, work.now)
        work.move(CHARGES, charge, work.charges[name])


def revise_charge(work: UnitOfWork, before: Charge, after: Charge) -> None:
    """Change a charge; a replaced revision is kept."""
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


class PaidParts(NamedTuple):
    """Keeps the parts of a payment of a charge with a due date."""

    keep: Callable[[UnitOfWork, Transfer, Charge, DayAmount], None]


def keep_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, parts: DayAmount | None) -> None:
    """Store the parts of a payment of a charge with a due date, if they sum up to the amounts of both."""
    if charge.due_on is None or parts is None:
        return
    if (parts.total_cents, parts.original_cents) == (transfer.amount_cents, charge.amount_cents):
        for each in gather("paid_parts", PaidParts):
            each.keep(work, transfer, charge, parts)
