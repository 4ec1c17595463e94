"""Pix that came in and went out, as Woovi lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.faces.woovi.charge import find_named_charge
from pixconnect.api.faces.woovi.paging import NAME, ShownPage, SliceQuery, read_name, read_slice
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.transfer import Direction, Transfer
from pixconnect.domain.money.transfer_search import SEARCHED_MAX, SearchTooLarge, TransferSearch
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.standard.cents_records import PixEmCentavos, show_cents_pix

_DIRECTIONS: Final = dict[str, Direction](PAYMENT="IN", WITHDRAW="OUT")
_NOBODYS: Final = "0" * 32


class PixSliceQuery(SliceQuery, frozen=True, kw_only=True):
    """Quais Pix."""

    kind: str | None = field(default=None, name="type")
    charge: str | None = None
    withdrawal: str | None = None


class PixLido(Struct, frozen=True, kw_only=True):
    pix: PixEmCentavos = field(name="transaction")


class PixListados(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma página de Pix."""

    page: ShownPage = field(name="pageInfo")
    pix: Sequence[PixEmCentavos] = field(name="transactions")


async def get_pix_either_way(face: Face, services: Services, request: Asked) -> Reply:
    """Consulta um Pix pelo nome que a rede lhe deu."""
    context, caller = services.context, request.caller
    view = await transfer_usecases.read_transfer_by_end_to_end_id(context, caller, read_name(request))
    request.query.refuse_hidden(view.transfer.created_at)
    (shown,) = await _show(face, services, caller, [view.transfer])
    return Reply(status=200, record=PixLido(pix=shown))


async def list_pix_both_ways(face: Face, services: Services, request: Asked) -> Reply:
    """Lista Pix recebidos e enviados, do mais novo ao mais antigo."""
    caller = request.caller
    violations = Violations("transaction")
    asked = read_slice(violations, request)
    parameters = request.query.under(PixSliceQuery, violations)
    kind = parameters.choice("type", (*_DIRECTIONS, "REFUND", "FEE"))
    of_charge, withdrawal = parameters.text("charge", NAME), parameters.text("withdrawal", NAME)
    violations.raise_if_any()
    if withdrawal is None and of_charge is not None:
        charge = await find_named_charge(services, caller, of_charge)
        found, page = await asked.read(lambda span: _find_paying(services, caller, charge, span))
    else:
        # Refunds are listed among refunds, and fees are in the statement alone.
        search = TransferSearch(end_to_end_id=_NOBODYS) if kind in ("REFUND", "FEE") else TransferSearch()
        if kind in _DIRECTIONS:
            search = TransferSearch(direction=_DIRECTIONS[kind])
        if withdrawal is not None:
            search = TransferSearch(end_to_end_id=withdrawal)
        found, page = await asked.read(lambda span: _search(services, caller, search, span))
    return Reply(status=200, record=PixListados(page=page, pix=await _show(face, services, caller, found)))


async def _search(services: Services, caller: Caller, search: TransferSearch, span: Span) -> Page[Transfer]:
    try:
        page = await transfer_usecases.search_transfers(services.context, caller, search, span)
    except SearchTooLarge:
        reason = f"start, end: por type procura-se entre {SEARCHED_MAX} Pix no máximo, e este período tem mais"
        raise NamedRefusal("PERIOD", reason) from None
    return page.with_items([view.transfer for view in page.items])


async def _find_paying(services: Services, caller: Caller, charge: Charge, span: Span) -> Page[Transfer]:
    """What paid a charge, as a list of one or none."""
    try:
        paying = await charge_usecases.read_paying_transfer(services.context, caller, charge.id)
    except errors.NotFound:
        return Page(items=[], total_count=0)
    if not TransferSearch().finds(paying, span):
        return Page(items=[], total_count=0)
    return Page(items=[] if span.position else [paying], total_count=1)


async def _show(face: Face, services: Services, caller: Caller, transfers: Sequence[Transfer]) -> list[PixEmCentavos]:
    own = (await services.context.directory.read_account(caller.holder_id)).party
    paid = {transfer.charge_id for transfer in transfers if transfer.charge_id is not None}
    charges = await charge_usecases.read_charges(services.context, caller, paid)
    base_url = services.base_url + face.prefix
    return [show_cents_pix(transfer, own, charges.get(transfer.charge_id or 0), base_url) for transfer in transfers]
