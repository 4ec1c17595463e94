"""The first movement of an account: what was on it when its books began."""

from __future__ import annotations

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.money.rail import MovementReport
from pixconnect.store.money import movement as movement_store
from pixconnect.usecases.money.movement import MovementContext, receive_movement


async def post_opening(context: MovementContext, account: InstitutionAccount) -> None:
    """Begin the books with what was on the account; done once, however often it is asked for."""
    # An opening balance of 0 has no entry.
    if not account.opening_cents:
        return
    # A holder may lie on another account later, whose books begin too.
    item_id = f"opening-balance:{account.id}"
    if await movement_store.find_items(context.pool, [(account.house_id, item_id)]):
        return
    house = await context.directory.read_account(account.house_id)
    report = MovementReport(
        report_id=item_id,
        item_id=item_id,
        party=house.party,
        kind="opening_balance",
        direction="IN",
        amount_cents=account.opening_cents,
        end_to_end_id=None,
        description=None,
        settled_at=account.opened_at,
    )
    await receive_movement(context, report)
