"""Immediate charges (``cob``) at the standard's door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec import Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import charge_body, charge_door, location
from pixconnect.api.standard.charge_door import ChargeDoor
from pixconnect.api.standard.charge_records import (
    Calendario,
    CobCompleta,
    CobListQuery,
    CobsConsultadas,
    Devedor,
    Linha,
    ParametrosCob,
    Valor,
)
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money import br_code, tax_id
from pixconnect.domain.money.charge import Charge, counts_from
from pixconnect.domain.money.charge_contents import ChargeContents, Payer
from pixconnect.domain.standard.location import AT_ONCE
from pixconnect.usecases.frame.directory import OwnAccount
from pixconnect.usecases.standard.charge_write import StandardCharge
from pixconnect.usecases.standard.payload_parts import COB_STATUSES
from pixconnect.usecases.standard.pix import Pix


async def create_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata com um txid feito pelo serviço."""
    return await charge_door.put(services, request, _COB, makes_txid=True)


async def put_immediate_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata, ou substitui o conteúdo de uma que está ativa.

    A mesma requisição de novo responde a cobrança como está, em qualquer status, e não a muda.
    """
    return await charge_door.put(services, request, _COB)


async def put_new_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança imediata com um txid que ainda não foi usado."""
    return await charge_door.put(services, request, _COB, is_new=True)


async def patch_immediate_charge(services: Services, request: Asked) -> Reply:
    """Revisa ou remove uma cobrança imediata.

    O que muda é uma revisão nova; o que não foi enviado fica como estava.
    """
    return await charge_door.patch(services, request, _COB)


async def get_charge(services: Services, request: Asked) -> Reply:
    """Consulta uma cobrança imediata, como está ou como era em uma revisão."""
    return await charge_door.get(services, request, _COB)


async def list_charges(services: Services, request: Asked) -> Reply:
    """Lista cobranças imediatas, da mais nova à mais antiga, também as feitas pela API própria deste serviço."""
    return await charge_door.list_page(services, request, _COB)


def _show(services: Services, _: OwnAccount, shown: StandardCharge, pix: Pix | None) -> CobCompleta:
    charge, contents = shown.charge, shown.contents
    place = shown.location and location.show(services, shown.location, charge.txid)
    return CobCompleta(
        calendario=Calendario(criacao=format_milliseconds(counts_from(charge)), expiracao=contents.lifetime_s),
        txid=charge.txid,
        revisao=shown.revision,
        devedor=contents.payer and _show_payer(contents.payer),
        loc=place,
        location=find_location_there(charge) if place is None else place.location,
        # An earlier revision describes the charge while it was active.
        status=COB_STATUSES[charge.status] if shown.is_latest else "ATIVA",
        valor=_show_value(contents),
        chave=contents.key,
        solicitacao_pagador=contents.question,
        linhas=show_lines(contents),
        pix_copia_e_cola=charge.br_code if place or charge.institution_id is not None else None,
        pix=None if pix is None else [pix],
    )


def _show_page(parametros: ParametrosCob, cobs: Sequence[Struct]) -> CobsConsultadas:
    return CobsConsultadas(parametros=parametros, cobs=cast("Sequence[CobCompleta]", cobs))


_COB: Final = ChargeDoor(
    entity=AT_ONCE,
    read_put=charge_body.read_put,
    read_patch=charge_body.read_patch,
    show=_show,
    list_query=CobListQuery,
    show_page=_show_page,
)


def show_lines(contents: ChargeContents) -> list[Linha] | None:
    """What the payer reads beside; ``None`` where there is nothing."""
    return [Linha(nome=line.name, valor=line.value) for line in contents.lines] or None


def find_location_there(charge: Charge) -> str | None:
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
