"""Charges with a due date (``cobv``) at the standard's door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec import Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import charge_body, charge_door, location
from pixconnect.api.standard.charge import find_location_there, show_lines
from pixconnect.api.standard.charge_door import ChargeDoor
from pixconnect.api.standard.due_records import (
    Abatimento,
    CobsVConsultadas,
    CobVCompleta,
    CobVListQuery,
    Desconto,
    DescontoDia,
    DevedorEndereco,
    Juros,
    ParametrosCobV,
    ValorVencimento,
    Vencimento,
)
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.due.terms import (
    DEDUCTION_KINDS,
    DISCOUNT_KINDS,
    INTEREST_KINDS,
    Discount,
    DueTerms,
    Fine,
    Rebate,
)
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.charge_contents import ChargeContents, PayerAddress
from pixconnect.domain.standard.location import WITH_DUE_DATE
from pixconnect.usecases.frame.directory import OwnAccount
from pixconnect.usecases.standard.charge_write import StandardCharge
from pixconnect.usecases.standard.due_payload import show_receiver
from pixconnect.usecases.standard.payload_parts import COB_STATUSES
from pixconnect.usecases.standard.pix import Pix


async def put_due_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança com vencimento, ou substitui o conteúdo de uma que está ativa.

    A mesma requisição de novo responde a cobrança como está, em qualquer status, e não a muda.
    """
    return await charge_door.put(services, request, _COBV)


async def put_new_due_charge(services: Services, request: Asked) -> Reply:
    """Cria uma cobrança com vencimento com um txid que ainda não foi usado."""
    return await charge_door.put(services, request, _COBV, is_new=True)


async def patch_due_charge(services: Services, request: Asked) -> Reply:
    """Revisa ou remove uma cobrança com vencimento.

    O que muda é uma revisão nova; o que não foi enviado fica como estava.
    """
    return await charge_door.patch(services, request, _COBV)


async def get_due_charge(services: Services, request: Asked) -> Reply:
    """Consulta uma cobrança com vencimento, como está ou como era em uma revisão."""
    return await charge_door.get(services, request, _COBV)


async def list_due_charges(services: Services, request: Asked) -> Reply:
    """Lista cobranças com vencimento, da mais nova à mais antiga."""
    return await charge_door.list_page(services, request, _COBV)


def _show(services: Services, own: OwnAccount, shown: StandardCharge, pix: Pix | None) -> CobVCompleta:
    charge, contents = shown.charge, shown.contents
    terms = errors.require(contents.due, "a charge of this kind has a due date")
    place = shown.location and location.show(services, shown.location, charge.txid)
    return CobVCompleta(
        calendario=Vencimento(
            criacao=format_milliseconds(charge.created_at),
            vencimento=terms.due_on.isoformat(),
            validade_apos_vencimento=terms.valid_days,
        ),
        txid=charge.txid,
        revisao=shown.revision,
        devedor=_show_debtor(contents),
        recebedor=show_receiver(own),
        loc=place,
        location=find_location_there(charge) if place is None else place.location,
        # An earlier revision describes the charge while it was active.
        status=COB_STATUSES[charge.status] if shown.is_latest else "ATIVA",
        valor=_show_value(contents.amount_cents, terms),
        chave=contents.key,
        solicitacao_pagador=contents.question,
        linhas=show_lines(contents),
        pix_copia_e_cola=charge.br_code if place or charge.institution_id is not None else None,
        pix=None if pix is None else [pix],
    )


def _show_page(parametros: ParametrosCobV, cobs: Sequence[Struct]) -> CobsVConsultadas:
    return CobsVConsultadas(parametros=parametros, cobs=cast("Sequence[CobVCompleta]", cobs))


_COBV: Final = ChargeDoor(
    entity=WITH_DUE_DATE,
    read_put=charge_body.read_due_put,
    read_patch=charge_body.read_due_patch,
    show=_show,
    list_query=CobVListQuery,
    show_page=_show_page,
)


def _show_debtor(contents: ChargeContents) -> DevedorEndereco:
    payer = errors.require(contents.payer, "a charge of this kind says of whom it asks")
    address = contents.address or PayerAddress()
    is_person = tax_id.is_cpf(payer.tax_id)
    return DevedorEndereco(
        cpf=payer.tax_id if is_person else None,
        cnpj=None if is_person else payer.tax_id,
        nome=payer.name,
        email=address.email,
        logradouro=address.street,
        cidade=address.city,
        uf=address.state,
        cep=address.postal_code,
    )


def _show_value(amount_cents: int, terms: DueTerms) -> ValorVencimento:
    interest = terms.interest
    return ValorVencimento(
        original=format_reais(amount_cents),
        multa=terms.fine and _show_deduction(terms.fine),
        juros=interest
        and Juros(modalidade=INTEREST_KINDS.index(interest.kind) + 1, valor_perc=format_reais(interest.value)),
        abatimento=terms.rebate and _show_deduction(terms.rebate),
        desconto=terms.discount and _show_discount(terms.discount),
    )


def _show_deduction(part: Fine | Rebate) -> Abatimento:
    # A kind's place in its table is the standard's number of it.
    return Abatimento(modalidade=DEDUCTION_KINDS.index(part.kind) + 1, valor_perc=format_reais(part.value))


def _show_discount(discount: Discount) -> Desconto:
    dated = [DescontoDia(dia=each.until.isoformat(), valor_perc=format_reais(each.value)) for each in discount.dated]
    return Desconto(
        modalidade=DISCOUNT_KINDS.index(discount.kind) + 1,
        valor_perc=None if discount.value is None else format_reais(discount.value),
        dias=dated or None,
    )
