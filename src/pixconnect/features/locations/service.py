"""Payloads at locations in our QR codes, which payers' institutions read before they pay.

For a charge with a due date a payload has the amount of the day on which the payer intends to pay.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from pixconnect.features.identity.service.keyring import SIGNER
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.charge import Charge, ChargeStatus
from pixconnect.kernel.rules.charge_contents import DayAmount, DueTerms, Payer, find_day_rules
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds, to_day
from pixconnect.platform.base.errors import Violated, Violation

_NAME_LENGTH_MAX = 200
_NOBODY = "-"  # the debtor's name in payloads of ended charges


class RecebedorEndereco(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Quem cobra."""

    cpf: Annotated[str, Meta(pattern=r"^\d{11}$")] | None = None
    """De uma pessoa."""
    cnpj: Annotated[str, Meta(pattern=r"^[0-9A-Z]{12}\d{2}$")] | None = None
    """De uma empresa."""
    nome: Annotated[str, Meta(min_length=1, max_length=_NAME_LENGTH_MAX)]
    """O nome."""
    logradouro: Annotated[str, Meta(max_length=_NAME_LENGTH_MAX)]
    """A rua e o número."""
    cidade: Annotated[str, Meta(max_length=_NAME_LENGTH_MAX)]
    """A cidade."""
    uf: Annotated[str, Meta(max_length=2)]
    """O estado."""
    cep: Annotated[str, Meta(max_length=8)]
    """O CEP, sem máscara."""


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


async def check_served(context: Context, path: str) -> Charge:
    """Return the charge at a path behind the locations' common prefix; raises ``NotFound``."""
    return errors.found(await context.directory.find_served(path), "no charge is served here")


async def read_payload(context: Context, path: str, day: date | None = None) -> str:
    """Return a compact JWS over the official payload of a path behind the locations' common prefix.

    Source: Pix API 2.9.0, ``CobPayload`` and ``CobVPayload``.

    Args:
        day: The payer's intended day for one with a due date; ``None`` is today.

    Raises:
        NotFound: No charge is served there.
        Violated: A charge with a due date cannot be paid on the requested day.
    """
    charge = await check_served(context, path)
    contents, status = charge_rules.read_contents(charge), COB_STATUSES[charge.status]
    balance = await ledger_store.find_balance(context.pool, charge.holder_id)
    # While its holder may not be paid no payment is accepted, so payers need not try.
    if status == "ATIVA" and balance is not None and not balance.may_deposit:
        status = "REMOVIDA_PELO_PSP"
    now = context.clock.now()
    # Locations are public and served for ever, and codes get printed, posted and forwarded.
    shows_payer = status == "ATIVA" and charge_rules.shows_payer(charge, now)
    payer = contents.payer if shows_payer else None
    # This process's clock may be a moment behind the one that dated the charge.
    shown_at = format_milliseconds(max(now, charge.created_at))
    calendar = {"criacao": format_milliseconds(charge.created_at), "apresentacao": shown_at}
    if contents.due is None:
        price = format_reais(contents.amount_cents)
        terms: dict[str, object] = {
            "calendario": {**calendar, "expiracao": contents.lifetime_s},
            "devedor": payer and _show_debtor(payer),
            "valor": {"original": price, "modalidadeAlteracao": int(contents.may_change_amount or 0)},
        }
    else:
        own = await context.directory.read_account(charge.holder_id)
        due, on = contents.due, _choose_day(contents.due, charge, status, day, now)
        of_due = {"dataDeVencimento": due.due_on.isoformat(), "validadeAposVencimento": due.valid_days}
        terms = {
            "calendario": {**calendar, **of_due},
            # The standard requires one. For an ended charge it has no name, and the payee's public number.
            "devedor": _show_debtor(payer or Payer(name=_NOBODY, tax_id=own.party.tax_id)),
            "recebedor": show_receiver(own),
            "valor": _show_amount(find_day_rules().compute_amount(due, contents.amount_cents, on)),
        }
    lines = [{"nome": line.name, "valor": line.value} for line in contents.lines if shows_payer]
    facts = {
        "chave": contents.key,
        "solicitacaoPagador": contents.question if shows_payer else None,
        "infoAdicionais": lines or None,
        "txid": charge.txid,
        "revisao": charge.revision or 0,
        "status": status,
    }
    signer = context.port(SIGNER)
    await signer.look_after_rest()
    shown = {name: value for name, value in (terms | facts).items() if value is not None}
    return signer.sign_location(msgspec.json.encode(shown), context.policy.location_key_set_url)


def _show_debtor(payer: Payer) -> Mapping[str, object]:
    return {"nome": payer.name, "cpf" if tax_id.is_cpf(payer.tax_id) else "cnpj": payer.tax_id}


def _choose_day(terms: DueTerms, charge: Charge, status: CobStatus, asked: date | None, now: datetime) -> date:
    last_day = to_day(find_day_rules().find_expiry(terms)) - timedelta(days=1)
    if status != "ATIVA":
        # Its later cost concerns no reader.
        return min(to_day(charge.modified_at), last_day)
    today = to_day(now)
    if asked is None:
        # After its last day it shows that day's amount: payers see its end by the calendar.
        return min(today, last_day)
    # Paying on a past day is impossible, and its amount may be lower than today's.
    if asked < today:
        reason = "não pode ser anterior a hoje, em São Paulo"
    elif asked > last_day:
        reason = f"a cobrança só pode ser paga até {last_day.isoformat()}"
    else:
        return asked
    raise Violated(WITH_DUE_DATE, [Violation(property="DPP", reason=reason, value=asked.isoformat())])


def _show_amount(amount: DayAmount) -> Mapping[str, object]:
    parts = dict(
        multa=amount.fine_cents, juros=amount.interest_cents, abatimento=amount.rebate_cents, desconto=amount.discount_cents
    )
    shown = {name: format_reais(cents) for name, cents in parts.items() if cents}
    return {"original": format_reais(amount.original_cents), **shown, "final": format_reais(amount.total_cents)}


def show_receiver(own: OwnAccount) -> RecebedorEndereco:
    """Return the account's owner and address, which every charge with a due date shows."""
    address = errors.require(own.address, "a holder without an address makes no charge with a due date")
    is_person = tax_id.is_cpf(own.party.tax_id)
    return RecebedorEndereco(
        cpf=own.party.tax_id if is_person else None,
        cnpj=None if is_person else own.party.tax_id,
        # A holder's name may be longer than the standard's maximum.
        nome=own.party.name[:_NAME_LENGTH_MAX],
        logradouro=address.street,
        cidade=address.city[:_NAME_LENGTH_MAX],
        uf=address.state,
        cep=address.postal_code,
    )
