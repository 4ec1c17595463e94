"""Charges in the standard API: immediate ones (``cob``), and those with a due date (``cobv``)."""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from msgspec import Struct

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.due_charges import api as due_records
from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS
from pixconnect.features.locations.service import COB_STATUSES, CobStatus, show_receiver
from pixconnect.features.pix_api.api import charge_body, charge_records, frame, location
from pixconnect.features.pix_api.api.charge_body import ChargePut
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import TXID, Violations
from pixconnect.features.pix_api.rules import ChargeSearch
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.features.pix_api.service.pix import Pix
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.rules import br_code, tax_id
from pixconnect.kernel.rules.charge import Charge, counts_from
from pixconnect.kernel.rules.charge_contents import ChargeContents, Discount, DueTerms, Fine, PayerAddress, Rebate
from pixconnect.kernel.rules.location import AT_ONCE, WITH_DUE_DATE, LocationKind
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.base.errors import Violated

_CHOICES: Final[tuple[CobStatus, ...]] = get_args(CobStatus)


async def create_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata com um txid feito pelo serviço."""
    return await _put(services, request, _COB, None)


async def put_immediate_charge(services: Services, request: Asked, *, is_new: bool = False) -> Reply:
    """Cria uma cobrança imediata, ou substitui o conteúdo de uma que está ativa.

    A mesma requisição de novo responde a cobrança como está, em qualquer status, e não a muda.
    """
    return await _put(services, request, _COB, _read_new_txid(request, AT_ONCE), is_new=is_new)


async def patch_immediate_charge(services: Services, request: Asked) -> Reply:
    """Revisa ou remove uma cobrança imediata.

    O que muda é uma revisão nova; o que não foi enviado fica como estava.
    """
    return await _patch(services, request, _COB)


async def get_charge(services: Services, request: Asked) -> Reply:
    """Consulta uma cobrança imediata, como está ou como era em uma revisão."""
    return await _get(services, request, _COB)


async def list_charges(services: Services, request: Asked) -> Reply:
    """Lista cobranças imediatas, da mais nova à mais antiga, também as feitas pela API própria deste serviço."""
    return await _list(services, request, _COB)


async def put_due_charge(services: Services, request: Asked, *, is_new: bool = False) -> Reply:
    """Cria uma cobrança com vencimento, ou substitui o conteúdo de uma que está ativa.

    A mesma requisição de novo responde a cobrança como está, em qualquer status, e não a muda.
    """
    return await _put(services, request, _COBV, _read_new_txid(request, WITH_DUE_DATE), is_new=is_new)


async def patch_due_charge(services: Services, request: Asked) -> Reply:
    """Revisa ou remove uma cobrança com vencimento.

    O que muda é uma revisão nova; o que não foi enviado fica como estava.
    """
    return await _patch(services, request, _COBV)


async def get_due_charge(services: Services, request: Asked) -> Reply:
    """Consulta uma cobrança com vencimento, como está ou como era em uma revisão."""
    return await _get(services, request, _COBV)


async def list_due_charges(services: Services, request: Asked) -> Reply:
    """Lista cobranças com vencimento, da mais nova à mais antiga."""
    return await _list(services, request, _COBV)


class _Kind(Struct, frozen=True, kw_only=True):
    entity: LocationKind
    read_put: Callable[[Mapping[str, object]], ChargePut]
    show: Callable[[Services, OwnAccount, StandardCharge, Pix | None], Struct]
    """One charge of this account, and the Pix that has paid it."""
    list_query: type[charge_records.CobListQuery]
    page: Callable[..., charge_records.CobsConsultadas | due_records.CobsVConsultadas]


async def _put(services: Services, request: Asked, kind: _Kind, txid: str | None, *, is_new: bool = False) -> Reply:
    asked = kind.read_put(request.body.require(kind.entity))
    made = await charge_usecases.put_charge(
        services.context, request.caller, txid, asked.contents, asked.location_id, is_new=is_new
    )
    return await _reply(services, request, kind, 201, made)


async def _patch(services: Services, request: Asked, kind: _Kind) -> Reply:
    txid = read_txid(request)
    try:
        asked = charge_body.read_patch(kind.entity, request.body.require(kind.entity))
    except Violated:
        # A missing charge precedes mistakes in the body.
        await charge_usecases.find_charge(services.context, request.caller, txid, kind.entity)
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


async def _get(services: Services, request: Asked, kind: _Kind) -> Reply:
    txid = read_txid(request)
    parameters = request.query.under(charge_records.CobQuery, kind.entity)
    revision = parameters.integer("revisao")
    # A missing charge precedes mistakes in the query, and in a body.
    if parameters.violations.rows:
        await charge_usecases.find_charge(services.context, request.caller, txid, kind.entity)
    parameters.raise_if_any()
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision, kind.entity)
    paid_by = await charge_usecases.find_pix(services.context, [read])
    return await _reply(services, request, kind, 200, read, paid_by.get(read.charge.id))


async def _list(services: Services, request: Asked, kind: _Kind) -> Reply:
    parameters = request.query.under(kind.list_query, kind.entity)
    interval = frame.read_interval(parameters)
    cpf, cnpj = parameters.tax_id("cpf"), parameters.tax_id("cnpj")
    frame.refuse_both_tax_ids(parameters, cpf, cnpj)
    is_placed = parameters.boolean("locationPresente")
    status = parameters.choice("status", _CHOICES)
    lot_number = parameters.integer("loteCobVId") if kind.entity == WITH_DUE_DATE else None
    asked = frame.read_page(parameters)
    parameters.raise_if_any()
    search = ChargeSearch(
        statuses=[each for each, shown in COB_STATUSES.items() if status in (None, shown)],
        has_due_date=kind.entity == WITH_DUE_DATE,
        tax_id=cpf or cnpj,
        is_placed=is_placed,
        lot_number=lot_number,
    )
    page = await charge_usecases.search_charges(services.context, request.caller, search, frame.make_span(interval, asked))
    paid_by = await charge_usecases.find_pix(services.context, page.items)
    own = await services.context.directory.read_account(request.caller.holder_id)
    filters = dict(cpf=cpf, cnpj=cnpj, location_presente=is_placed, status=status, lote=lot_number)
    asked_for = frame.describe(interval, asked, page.total_count, due_records.ParametrosCobV, **filters)
    cobs = [kind.show(services, own, item, paid_by.get(item.charge.id)) for item in page.items]
    return Reply(status=200, record=kind.page(parametros=asked_for, cobs=cobs))


async def _reply(
    services: Services, request: Asked, kind: _Kind, status: int, shown: StandardCharge, pix: Pix | None = None
) -> Reply:
    own = await services.context.directory.read_account(request.caller.holder_id)
    return Reply(status=status, record=kind.show(services, own, shown, pix))


def _read_new_txid(request: Asked, entity: LocationKind) -> str:
    (txid,) = request.parameter
    violations = Violations(entity)
    if not TXID.fullmatch(txid):
        violations.add("txid", "deve ter de 26 a 35 letras e dígitos", txid)
    violations.raise_if_any()
    return txid


def read_txid(request: Asked) -> str:
    # Any other form matches nothing.
    (txid,) = request.parameter
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    return txid


def _show(services: Services, _: OwnAccount, shown: StandardCharge, pix: Pix | None) -> charge_records.CobCompleta:
    contents = shown.contents
    modality = None if contents.may_change_amount is None else int(contents.may_change_amount)
    return charge_records.CobCompleta(
        calendario=charge_records.Calendario(
            criacao=format_milliseconds(counts_from(shown.charge)), expiracao=contents.lifetime_s
        ),
        devedor=contents.payer and charge_records.Devedor(nome=contents.payer.name, **_show_tax_id(contents.payer.tax_id)),
        valor=charge_records.Valor(original=format_reais(contents.amount_cents), modalidade_alteracao=modality),
        **_show_both(services, shown, pix),
    )


def _show_due(services: Services, own: OwnAccount, shown: StandardCharge, pix: Pix | None) -> due_records.CobVCompleta:
    contents = shown.contents
    terms = errors.require(contents.due, "a charge of this kind has a due date")
    return due_records.CobVCompleta(
        calendario=due_records.Vencimento(
            criacao=format_milliseconds(shown.charge.created_at),
            vencimento=terms.due_on.isoformat(),
            validade_apos_vencimento=terms.valid_days,
        ),
        devedor=_show_debtor(contents),
        recebedor=show_receiver(own),
        valor=_show_value(contents.amount_cents, terms),
        **_show_both(services, shown, pix),
    )


def _show_both(services: Services, shown: StandardCharge, pix: Pix | None) -> dict[str, Any]:
    charge, contents = shown.charge, shown.contents
    place = shown.location and location.show(services, shown.location, charge.txid)
    return dict(
        txid=charge.txid,
        revisao=shown.revision,
        loc=place,
        location=_find_external_location(charge) if place is None else place.location,
        # An earlier revision shows the charge while it was active.
        status=COB_STATUSES[charge.status] if shown.is_latest else "ATIVA",
        chave=contents.key,
        solicitacao_pagador=contents.question,
        linhas=[charge_records.Linha(nome=line.name, valor=line.value) for line in contents.lines] if contents.lines else None,
        pix_copia_e_cola=charge.br_code if place or charge.institution_id is not None else None,
        pix=None if pix is None else [pix],
    )


def _find_external_location(charge: Charge) -> str | None:
    """Find its location at an institution, by its code; a static code has none, and our own locations are unbound."""
    if charge.institution_id is None:
        return None
    try:
        return br_code.parse_br_code(charge.br_code).location
    except errors.InvalidQrCode:
        return None


def _show_tax_id(number: str) -> dict[str, str]:
    return {"cpf" if tax_id.is_cpf(number) else "cnpj": number}


def _show_debtor(contents: ChargeContents) -> due_records.DevedorEndereco:
    payer = errors.require(contents.payer, "a charge of this kind names its payer")
    address = contents.address or PayerAddress()
    return due_records.DevedorEndereco(
        nome=payer.name,
        **_show_tax_id(payer.tax_id),
        email=address.email,
        logradouro=address.street,
        cidade=address.city,
        uf=address.state,
        cep=address.postal_code,
    )


def _show_value(amount_cents: int, terms: DueTerms) -> due_records.ValorVencimento:
    interest = terms.interest
    return due_records.ValorVencimento(
        original=format_reais(amount_cents),
        multa=terms.fine and _show_deduction(terms.fine),
        juros=interest
        and due_records.Juros(modalidade=INTEREST_KINDS.index(interest.kind) + 1, valor_perc=format_reais(interest.value)),
        abatimento=terms.rebate and _show_deduction(terms.rebate),
        desconto=terms.discount and _show_discount(terms.discount),
    )


def _show_deduction(part: Fine | Rebate) -> due_records.Abatimento:
    # The standard numbers a kind by its place in its table.
    return due_records.Abatimento(modalidade=DEDUCTION_KINDS.index(part.kind) + 1, valor_perc=format_reais(part.value))


def _show_discount(discount: Discount) -> due_records.Desconto:
    dated = [
        due_records.DescontoDia(dia=each.until.isoformat(), valor_perc=format_reais(each.value)) for each in discount.dated
    ]
    return due_records.Desconto(
        modalidade=DISCOUNT_KINDS.index(discount.kind) + 1,
        valor_perc=None if discount.value is None else format_reais(discount.value),
        dias=dated or None,
    )


_COB: Final = _Kind(
    entity=AT_ONCE,
    read_put=charge_body.read_put,
    show=_show,
    list_query=charge_records.CobListQuery,
    page=charge_records.CobsConsultadas,
)
_COBV: Final = _Kind(
    entity=WITH_DUE_DATE,
    read_put=charge_body.read_due_put,
    show=_show_due,
    list_query=due_records.CobVListQuery,
    page=due_records.CobsVConsultadas,
)
