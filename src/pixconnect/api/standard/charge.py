"""Immediate charges (``cob``) at the standard's door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import charge_body, listing, location
from pixconnect.api.standard.charge_records import (
    Calendario,
    CobCompleta,
    CobListQuery,
    CobQuery,
    CobsConsultadas,
    Devedor,
    Linha,
    ParametrosCob,
    Valor,
)
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import TXID, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.frame.violation import Violated
from pixconnect.domain.money import br_code, tax_id
from pixconnect.domain.money.charge import Charge, counts_from
from pixconnect.domain.money.charge_contents import ChargeContents, Payer
from pixconnect.domain.money.charge_search import ChargeSearch
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import charge_search as search_usecases
from pixconnect.usecases.standard.charge_write import ENTITY, StandardCharge
from pixconnect.usecases.standard.payload import COB_STATUSES, CobStatus
from pixconnect.usecases.standard.pix import Pix

_CHOICES: Final[tuple[CobStatus, ...]] = get_args(CobStatus)


async def create_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata com um txid feito pelo serviço."""
    asked = charge_body.read_put(request.body.require(ENTITY))
    made = await charge_usecases.put_charge(services.context, request.caller, None, asked.contents, asked.location_id)
    return Reply(status=201, record=_show(services, made))


async def put_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata, ou substitui o conteúdo de uma que está ativa.

    A mesma requisição de novo responde a cobrança como está, em qualquer status, e não a muda.
    """
    return await _put(services, request, is_new=False)


async def put_new_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata com um txid que ainda não foi usado."""
    return await _put(services, request, is_new=True)


async def _put(services: Services, request: Asked, *, is_new: bool) -> Reply:
    (txid,) = request.parameter
    violations = Violations(ENTITY)
    if not TXID.fullmatch(txid):
        violations.add("txid", "deve ter de 26 a 35 letras e dígitos", txid)
    violations.raise_if_any()
    asked = charge_body.read_put(request.body.require(ENTITY))
    put = await charge_usecases.put_charge(
        services.context, request.caller, txid, asked.contents, asked.location_id, is_new=is_new
    )
    return Reply(status=201, record=_show(services, put))


async def patch_charge(services: Services, request: Asked) -> Reply:
    """Revisa ou remove uma cobrança imediata.

    O que muda é uma revisão nova; o que não foi enviado fica como estava.
    """
    txid = _read_txid(request)
    try:
        asked = charge_body.read_patch(request.body.require(ENTITY))
    except Violated:
        # A missing charge is reported before mistakes in the body.
        await charge_usecases.check_charge(services.context, request.caller, txid)
        raise
    patched = await charge_usecases.patch_charge(
        services.context,
        request.caller,
        txid,
        asked.change,
        location_id=asked.location_id,
        removes=asked.removes,
    )
    return Reply(status=200, record=_show(services, patched))


async def get_charge(services: Services, request: Asked) -> Reply:
    """Consulta uma cobrança imediata, como está ou como era em uma revisão."""
    txid = _read_txid(request)
    violations = Violations(ENTITY)
    revision = request.query.under(CobQuery, violations).integer("revisao")
    if violations.rows:
        await charge_usecases.check_charge(services.context, request.caller, txid)
    violations.raise_if_any()
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision)
    paid_by = await search_usecases.find_pix(services.context, request.caller, [read])
    return Reply(status=200, record=_show(services, read, paid_by))


async def list_charges(services: Services, request: Asked) -> Reply:
    """Lista cobranças imediatas, da mais nova à mais antiga, também as feitas pela API própria deste serviço."""
    violations = Violations(ENTITY)
    parameters = request.query.under(CobListQuery, violations)
    interval = listing.read_interval(parameters)
    cpf, cnpj = parameters.tax_id("cpf"), parameters.tax_id("cnpj")
    listing.refuse_both_tax_ids(parameters, cpf, cnpj)
    is_placed = parameters.boolean("locationPresente")
    status = parameters.choice("status", _CHOICES)
    asked = listing.read_page(parameters)
    violations.raise_if_any()
    search = ChargeSearch(
        statuses=[each for each, shown in COB_STATUSES.items() if status in (None, shown)],
        tax_id=cpf or cnpj,
        is_placed=is_placed,
    )
    page = await search_usecases.search_charges(
        services.context, request.caller, search, listing.make_span(interval, asked)
    )
    paid_by = await search_usecases.find_pix(services.context, request.caller, page.items)
    shown = CobsConsultadas(
        parametros=ParametrosCob(
            inicio=interval.shown_inicio,
            fim=interval.shown_fim,
            cpf=cpf,
            cnpj=cnpj,
            location_presente=is_placed,
            status=status,
            paginacao=asked.paginate(page.total_count),
        ),
        cobs=[_show(services, item, paid_by) for item in page.items],
    )
    return Reply(status=200, record=shown)


def _read_txid(request: Asked) -> str:
    # What has another form names nothing.
    (txid,) = request.parameter
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    return txid


def _show(services: Services, shown: StandardCharge, paid_by: Mapping[int, Pix] | None = None) -> CobCompleta:
    charge, contents = shown.charge, shown.contents
    place = shown.location and location.show(services, shown.location, charge.txid)
    pix = (paid_by or {}).get(charge.id)
    return CobCompleta(
        calendario=Calendario(criacao=format_milliseconds(counts_from(charge)), expiracao=contents.lifetime_s),
        txid=charge.txid,
        revisao=shown.revision,
        devedor=contents.payer and _show_payer(contents.payer),
        loc=place,
        location=_find_location_there(charge) if place is None else place.location,
        # An earlier revision describes the charge while it was active.
        status=COB_STATUSES[charge.status] if shown.is_latest else "ATIVA",
        valor=_show_value(contents),
        chave=contents.key,
        solicitacao_pagador=contents.question,
        linhas=[Linha(nome=line.name, valor=line.value) for line in contents.lines] or None,
        pix_copia_e_cola=charge.br_code if place or charge.institution_id is not None else None,
        pix=None if pix is None else [pix],
    )


def _find_location_there(charge: Charge) -> str | None:
    """Where an institution serves it, as its code says; a static code leads nowhere, and locations of ours are unbound."""
    if charge.institution_id is None:
        return None
    try:
        return br_code.parse_br_code(charge.br_code).location
    except errors.InvalidQrCode:
        return None


def _show_value(contents: ChargeContents) -> Valor:
    modality = None if contents.may_change_amount is None else int(contents.may_change_amount)
    return Valor(original=format_reais(contents.amount_cents), modalidade_alteracao=modality)


def _show_payer(payer: Payer) -> Devedor:
    if tax_id.is_cpf(payer.tax_id):
        return Devedor(cpf=payer.tax_id, nome=payer.name)
    return Devedor(cnpj=payer.tax_id, nome=payer.name)
