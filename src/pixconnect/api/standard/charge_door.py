"""What both kinds of charges, immediate ones and those with a due date, do alike at the standard's door."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, get_args

from msgspec import Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import listing
from pixconnect.api.standard.charge_body import ChargePatch, ChargePut
from pixconnect.api.standard.charge_records import CobListQuery, CobQuery
from pixconnect.api.standard.due_records import ParametrosCobV
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import TXID, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.violation import Violated
from pixconnect.domain.money.charge_search import ChargeSearch
from pixconnect.domain.standard.location import WITH_DUE_DATE, LocationKind
from pixconnect.usecases.frame.directory import OwnAccount
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import charge_search as search_usecases
from pixconnect.usecases.standard.charge_write import StandardCharge
from pixconnect.usecases.standard.payload_parts import COB_STATUSES, CobStatus
from pixconnect.usecases.standard.pix import Pix

_CHOICES: Final[tuple[CobStatus, ...]] = get_args(CobStatus)


class ChargeDoor(Struct, frozen=True, kw_only=True):
    entity: LocationKind
    read_put: Callable[[Mapping[str, object]], ChargePut]
    read_patch: Callable[[Mapping[str, object]], ChargePatch]
    show: Callable[[Services, OwnAccount, StandardCharge, Pix | None], Struct]
    """One charge of this account, and the Pix that has paid it."""
    list_query: type[CobListQuery]
    show_page: Callable[[ParametrosCobV, Sequence[Struct]], Struct]


async def put(
    services: Services, request: Asked, kind: ChargeDoor, *, makes_txid: bool = False, is_new: bool = False
) -> Reply:
    """Make a charge or give it other contents; ``is_new`` refuses where there is one."""
    txid = None if makes_txid else _read_new_txid(request, kind)
    asked = kind.read_put(request.body.require(kind.entity))
    made = await charge_usecases.put_charge(
        services.context, request.caller, txid, asked.contents, asked.location_id, is_new=is_new
    )
    return await _reply(services, request, kind, 201, made)


async def patch(services: Services, request: Asked, kind: ChargeDoor) -> Reply:
    txid = _read_txid(request)
    try:
        asked = kind.read_patch(request.body.require(kind.entity))
    except Violated:
        # A missing charge is reported before mistakes in the body.
        await charge_usecases.check_charge(services.context, request.caller, txid, kind.entity)
        raise
    patched = await charge_usecases.patch_charge(
        services.context,
        request.caller,
        txid,
        asked.change,
        kind=kind.entity,
        location_id=asked.location_id,
        removes=asked.removes,
    )
    return await _reply(services, request, kind, 200, patched)


async def get(services: Services, request: Asked, kind: ChargeDoor) -> Reply:
    txid = _read_txid(request)
    parameters = request.query.under(CobQuery, kind.entity)
    revision = parameters.integer("revisao")
    # A missing charge comes before a mistake in the query, as it does before one in a body.
    if parameters.violations.rows:
        await charge_usecases.check_charge(services.context, request.caller, txid, kind.entity)
    parameters.raise_if_any()
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision, kind.entity)
    paid_by = await search_usecases.find_pix(services.context, [read])
    return await _reply(services, request, kind, 200, read, paid_by.get(read.charge.id))


async def list_page(services: Services, request: Asked, kind: ChargeDoor) -> Reply:
    parameters = request.query.under(kind.list_query, kind.entity)
    interval = listing.read_interval(parameters)
    cpf, cnpj = parameters.tax_id("cpf"), parameters.tax_id("cnpj")
    listing.refuse_both_tax_ids(parameters, cpf, cnpj)
    is_placed = parameters.boolean("locationPresente")
    status = parameters.choice("status", _CHOICES)
    lot_number = parameters.integer("loteCobVId") if kind.entity == WITH_DUE_DATE else None
    asked = listing.read_page(parameters)
    parameters.raise_if_any()
    search = ChargeSearch(
        statuses=[each for each, shown in COB_STATUSES.items() if status in (None, shown)],
        has_due_date=kind.entity == WITH_DUE_DATE,
        tax_id=cpf or cnpj,
        is_placed=is_placed,
        lot_number=lot_number,
    )
    page = await search_usecases.search_charges(
        services.context, request.caller, search, listing.make_span(interval, asked)
    )
    paid_by = await search_usecases.find_pix(services.context, page.items)
    own = await services.context.directory.read_account(request.caller.holder_id)
    filters = dict(cpf=cpf, cnpj=cnpj, location_presente=is_placed, status=status, lote=lot_number)
    asked_for = listing.describe(interval, asked, page.total_count, ParametrosCobV, **filters)
    cobs = [kind.show(services, own, item, paid_by.get(item.charge.id)) for item in page.items]
    return Reply(status=200, record=kind.show_page(asked_for, cobs))


async def _reply(
    services: Services, request: Asked, kind: ChargeDoor, status: int, shown: StandardCharge, pix: Pix | None = None
) -> Reply:
    own = await services.context.directory.read_account(request.caller.holder_id)
    return Reply(status=status, record=kind.show(services, own, shown, pix))


def _read_new_txid(request: Asked, kind: ChargeDoor) -> str:
    (txid,) = request.parameter
    violations = Violations(kind.entity)
    if not TXID.fullmatch(txid):
        violations.add("txid", "deve ter de 26 a 35 letras e dígitos", txid)
    violations.raise_if_any()
    return txid


def _read_txid(request: Asked) -> str:
    # What has another form names nothing.
    (txid,) = request.parameter
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    return txid
