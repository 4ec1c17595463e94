"""Refunds that the service makes itself: of payments that it cannot accept, over a rail on which it cannot refuse them.

The money arrives and is reserved for its way back in one transaction, so that nobody can spend it, and the refund then goes the
way of any other. Nobody has asked for it, so the rules for those who ask (a holder that may not withdraw) do not forbid it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from pixconnect.domain.frame import identifiers
from pixconnect.domain.institutions.give_back import GiveBack
from pixconnect.domain.money import refund as refund_rules
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.institutions import give_back as give_back_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money.refund import hold_refund
from pixconnect.writing.unit_of_work import UnitOfWork


class AutomaticRefund(Struct, frozen=True, kw_only=True):
    """The ids of a refund that may have to be made, made before the first try."""

    refund_id: int
    return_id: str


async def plan_refund(context: Context) -> AutomaticRefund | None:
    """Make ids for giving a payment back; ``None`` where the rail lets us refuse it."""
    if context.policy.abilities.refuses_credits:
        return None
    return AutomaticRefund(
        refund_id=await context.ids.refund_id(),
        return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
    )


def hold_automatic_refund(work: UnitOfWork, received: Transfer, planned: AutomaticRefund, code: str) -> Transfer:
    """Return all of a payment just credited, for the code of its refusal; the caller writes the transfer."""
    refund = refund_rules.open_automatic_refund(
        received, refund_id=planned.refund_id, return_id=planned.return_id, code=code, now=work.now
    )
    work.announce_refund(refund)
    # No caller waits for an answer, and the money is not the holder's: so we do not give it up after a minute.
    return hold_refund(work, refund, received, refund_rules.find_window(received.settled_at or work.now))


async def note_giving_back(work: UnitOfWork, names: Collection[str], new: Mapping[str, Transfer]) -> None:
    """At an account that gives back by itself what pays no charge: note it together with the credit.

    It goes back once a reading has shown that nobody has returned it (``usecases/institutions/give_back.py``).
    """
    for received in (new[name] for name in names if name in new):
        if received.institution_id is not None and received.charge_id is None and received.settled_at is not None:
            noted = GiveBack(
                transfer_id=received.id,
                holder_id=received.holder_id,
                institution_id=received.institution_id,
                state="waiting",
                due_at=work.now,
                created_at=work.now,
            )
            await give_back_store.insert(work.connection, noted)
