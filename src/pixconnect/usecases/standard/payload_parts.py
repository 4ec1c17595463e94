"""What the payloads of both kinds of charges have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from pixconnect.domain.money import tax_id
from pixconnect.domain.money.charge import ChargeStatus
from pixconnect.domain.money.charge_contents import Payer

CobStatus = Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]

# Expiry is no status there: payers compute it from the calendar.
COB_STATUSES: Final[Mapping[ChargeStatus, CobStatus]] = dict[ChargeStatus, CobStatus](
    (
        ("PENDING", "ATIVA"),
        ("EXPIRED", "ATIVA"),
        ("APPROVED", "CONCLUIDA"),
        ("RETURNED", "CONCLUIDA"),
        ("REMOVED_BY_RECEIVER", "REMOVIDA_PELO_USUARIO_RECEBEDOR"),
        ("REMOVED_BY_PSP", "REMOVIDA_PELO_PSP"),
    )
)


class PayloadPayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    nome: str
    cpf: str | None = None
    cnpj: str | None = None


class PayloadLine(Struct, frozen=True, kw_only=True):
    nome: str
    valor: str


def show_debtor(payer: Payer) -> PayloadPayer:
    if tax_id.is_cpf(payer.tax_id):
        return PayloadPayer(nome=payer.name, cpf=payer.tax_id)
    return PayloadPayer(nome=payer.name, cnpj=payer.tax_id)
