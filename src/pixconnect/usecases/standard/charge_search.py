"""Lists of charges at the standard's door, and the Pix that paid them."""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money.charge_search import ChargeSearch
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.money import charge_search as search_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.standard import pix as standard_pix
from pixconnect.usecases.standard.charge_write import StandardCharge
from pixconnect.usecases.standard.location import locate_charges
from pixconnect.usecases.standard.pix import Pix


async def search_charges(context: Context, caller: Caller, search: ChargeSearch, span: Span) -> Page[StandardCharge]:
    """One page of the holder's charges, whichever door made them, newest first."""
    page = await search_store.read_page(context.pool, caller.holder_id, search, span)
    locations = await locate_charges(context, page.items)
    return page.with_items([StandardCharge.of(charge, locations.get(charge.id)) for charge in page.items])


async def find_pix(context: Context, charges: Sequence[StandardCharge]) -> dict[int, Pix]:
    """What paid those that are paid, by the charge's id."""
    # Those of a holder that the caller's has succeeded were paid to that one.
    paid = [each.charge for each in charges if each.is_latest and each.charge.status in charge_rules.PAID]
    transfers: dict[int, Transfer] = {}
    for holder_id in {charge.holder_id for charge in paid}:
        of_holder = [charge.id for charge in paid if charge.holder_id == holder_id]
        transfers |= await transfer_store.find_all_paying(context.pool, holder_id, of_holder)
    shown = await standard_pix.show_all(context.pool, transfers.values())
    return {charge_id: shown[transfer.id] for charge_id, transfer in transfers.items()}
