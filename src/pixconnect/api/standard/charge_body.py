"""Bodies of charges, immediate ones and those with a due date: read member by member.

So one answer names everything that is wrong. Terms of a due date are judged by ``domain/due`` once their form is right, with
what a revision leaves as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TypeVar

from msgspec import Struct, structs

from pixconnect.api.standard.charge_records import CobRevisada, CobSolicitada
from pixconnect.api.standard.due_records import CobVRevisada, CobVSolicitada
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.due.terms import (
    DEDUCTION_KINDS,
    DISCOUNT_KINDS,
    INTEREST_KINDS,
    UNTIL_A_DATE,
    VALID_DAYS,
    DatedDiscount,
    Discount,
    DiscountKind,
    DueTerms,
    Fine,
    Interest,
    Rebate,
)
from pixconnect.domain.money import pix_key
from pixconnect.domain.money.charge_contents import (
    LIFETIME_S,
    ChargeContents,
    ContentsChange,
    DueChange,
    Line,
    Payer,
    PayerAddress,
)
from pixconnect.domain.standard.location import AT_ONCE as ENTITY
from pixconnect.domain.standard.location import WITH_DUE_DATE


class ChargePut(Struct, frozen=True):
    contents: ChargeContents
    location_id: int | None


class ChargePatch(Struct, frozen=True):
    change: ContentsChange
    location_id: int | None
    removes: bool


def read_put(members: Mapping[str, object]) -> ChargePut:
    """All that a charge is to say; raises ``Violated``."""
    violations = Violations(ENTITY)
    body = Members(violations, CobSolicitada, members)
    change = _read_change(body, is_whole=True)
    location_id = read_wanted_location(body)
    violations.raise_if_any()
    contents = ChargeContents(
        lifetime_s=change.lifetime_s or LIFETIME_S,
        amount_cents=change.amount_cents or 0,
        may_change_amount=change.may_change_amount,
        key=change.key or "",
        payer=change.payer,
        question=change.question,
        lines=change.lines or (),
    )
    return ChargePut(contents, location_id)


def read_patch(members: Mapping[str, object]) -> ChargePatch:
    """What a charge is to say instead; raises ``Violated``."""
    violations = Violations(ENTITY)
    body = Members(violations, CobRevisada, members, refuses_null=True)
    change = _read_change(body, is_whole=False)
    location_id = read_wanted_location(body)
    removes = read_removing(body, CobRevisada)
    violations.raise_if_any()
    return ChargePatch(change, location_id, removes)


def _read_change(body: Members, *, is_whole: bool) -> ContentsChange:
    # In the order in which the standard lists what breaks its rules.
    calendar = body.object("calendario")
    lifetime_s = None if calendar is None else calendar.integer("expiracao")
    amount_cents, may_change_amount = _read_value(body, is_whole=is_whole)
    payer = _read_payer(body)
    key = read_own_key(body)
    question = body.text("solicitacaoPagador")
    lines = read_added_lines(body)
    return ContentsChange(
        lifetime_s=lifetime_s,
        amount_cents=amount_cents,
        may_change_amount=may_change_amount,
        key=key,
        payer=payer,
        # An empty one says nothing, and a patch removes nothing.
        question=question or None,
        lines=lines or None,
    )


def _read_value(body: Members, *, is_whole: bool) -> tuple[int | None, bool | None]:
    value = body.object("valor")
    if value is None:
        return None, None
    amount_cents = value.amount("original")
    modality = value.integer("modalidadeAlteracao")
    if value.has("retirada"):
        value.refuse("retirada", "Pix Saque e Pix Troco não são oferecidos")
    # Whether a patch may set zero depends on the charge's present state.
    elif amount_cents == 0 and modality != 1 and is_whole:
        value.refuse("original", "só pode ser 0.00 com modalidadeAlteracao 1")
    return amount_cents, None if modality is None else bool(modality)


def read_removing(body: Members, record: type[Struct]) -> bool:
    """Whether a patch removes the charge."""
    removes = body.choice("status") is not None
    others = (each.encode_name for each in structs.fields(record) if each.name != "status")
    # A removed charge has nothing left to change, so a caller who changes it in the same request has made a mistake.
    if removes and any(map(body.has, others)):
        body.refuse("status", "a cobrança não pode ser removida junto com outras alterações")
    return removes


def _read_payer(body: Members) -> Payer | None:
    """Of whom it asks; a charge with a due date says more of the same person."""
    debtor = body.object("devedor")
    return None if debtor is None else read_person(body, debtor)


def read_person(body: Members, debtor: Members) -> Payer | None:
    """The person or company that a member ``devedor`` names."""
    cpf, cnpj = debtor.tax_id("cpf"), debtor.tax_id("cnpj")
    if debtor.has("cpf") and debtor.has("cnpj"):
        debtor.refuse("cnpj", "não pode ser usado junto com cpf")
    elif not debtor.has("cpf") and not debtor.has("cnpj"):
        body.refuse("devedor", "deve ter cpf ou cnpj")
    name = debtor.text("nome")
    found = cpf or cnpj
    return None if name is None or found is None else Payer(name=name, tax_id=found)


def read_own_key(body: Members) -> str | None:
    # With the marks that people write, which its normal form has not.
    found = body.pix_key("chave", length_max=pix_key.SENT_LENGTH_MAX)
    return None if found is None else found.key


def read_added_lines(body: Members) -> tuple[Line, ...] | None:
    sent = body.objects("infoAdicionais")
    if sent is None:
        return None
    lines: list[Line] = []
    for line in sent:
        name, value = line.text("nome"), line.text("valor")
        if name is not None and value is not None:
            lines.append(Line(name=name, value=value))
    return tuple(lines)


def read_wanted_location(body: Members) -> int | None:
    location = body.object("loc")
    return None if location is None else location.integer("id")


_Kind = TypeVar("_Kind", bound=str)


def read_due_put(members: Mapping[str, object]) -> ChargePut:
    """All that a charge is to say; raises ``Violated``."""
    violations = Violations(WITH_DUE_DATE)
    body = Members(violations, CobVSolicitada, members)
    change, due, location_id = _read_due_change(body)
    violations.raise_if_any()
    contents = ChargeContents(
        lifetime_s=0,
        amount_cents=change.amount_cents or 0,
        key=change.key or "",
        payer=change.payer,
        address=change.address,
        question=change.question,
        lines=change.lines or (),
        due=DueTerms(
            due_on=due.due_on or date.min,
            valid_days=VALID_DAYS if due.valid_days is None else due.valid_days,
            fine=due.fine,
            interest=due.interest,
            rebate=due.rebate,
            discount=due.discount,
        ),
    )
    return ChargePut(contents, location_id)


def read_due_patch(members: Mapping[str, object]) -> ChargePatch:
    """What a charge is to say instead; raises ``Violated``."""
    violations = Violations(WITH_DUE_DATE)
    body = Members(violations, CobVRevisada, members, refuses_null=True)
    change, _, location_id = _read_due_change(body)
    removes = read_removing(body, CobVRevisada)
    violations.raise_if_any()
    return ChargePatch(change, location_id, removes)


def _read_due_change(body: Members) -> tuple[ContentsChange, DueChange, int | None]:
    # In the order in which the standard lists what breaks its rules.
    calendar = body.object("calendario")
    due_on = None if calendar is None else calendar.day("dataDeVencimento")
    valid_days = None if calendar is None else calendar.integer("validadeAposVencimento")
    payer, address = _read_debtor(body)
    key = read_own_key(body)
    question = body.text("solicitacaoPagador")
    lines = read_added_lines(body)
    location_id = read_wanted_location(body)
    value = body.object("valor")
    amount_cents = None if value is None else _read_original(value)
    due = DueChange(
        due_on=due_on,
        valid_days=valid_days,
        fine=None if value is None else _read_fine(value),
        interest=None if value is None else _read_interest(value),
        rebate=None if value is None else _read_rebate(value),
        discount=None if value is None else _read_discount(value),
    )
    change = ContentsChange(
        amount_cents=amount_cents,
        key=key,
        payer=payer,
        address=address,
        # An empty one says nothing, and a patch removes nothing.
        question=question or None,
        lines=lines or None,
        due=due,
    )
    return change, due, location_id


def _read_debtor(body: Members) -> tuple[Payer | None, PayerAddress | None]:
    debtor = body.object("devedor")
    if debtor is None:
        return None, None
    payer = read_person(body, debtor)
    address = PayerAddress(
        email=debtor.text("email") or None,
        street=debtor.text("logradouro") or None,
        city=debtor.text("cidade") or None,
        state=debtor.text("uf") or None,
        postal_code=debtor.text("cep") or None,
    )
    return payer, None if address == PayerAddress() else address


def _read_original(value: Members) -> int | None:
    amount_cents = value.amount("original")
    if amount_cents == 0:
        value.refuse("original", "deve ser maior que 0.00")
    return amount_cents


def _read_fine(value: Members) -> Fine | None:
    kind, rate = _read_rate(value.object("multa"), DEDUCTION_KINDS)
    return None if kind is None or rate is None else Fine(kind=kind, value=rate)


def _read_interest(value: Members) -> Interest | None:
    kind, rate = _read_rate(value.object("juros"), INTEREST_KINDS)
    return None if kind is None or rate is None else Interest(kind=kind, value=rate)


def _read_rebate(value: Members) -> Rebate | None:
    kind, rate = _read_rate(value.object("abatimento"), DEDUCTION_KINDS)
    return None if kind is None or rate is None else Rebate(kind=kind, value=rate)


def _read_rate(part: Members | None, kinds: Sequence[_Kind]) -> tuple[_Kind | None, int | None]:
    if part is None:
        return None, None
    modality, rate = part.integer("modalidade"), part.amount("valorPerc")
    return None if modality is None else kinds[modality - 1], rate


def _read_discount(value: Members) -> Discount | None:
    discount = value.object("desconto")
    if discount is None:
        return None
    modality, rate = discount.integer("modalidade"), discount.amount("valorPerc")
    dated = _read_dated(discount)
    if modality is None:
        return None
    kind: DiscountKind = DISCOUNT_KINDS[modality - 1]
    if kind in UNTIL_A_DATE:
        if discount.has("valorPerc"):
            discount.refuse("valorPerc", "não pode ser usado com as modalidades 1 e 2")
        if discount.is_empty("descontoDataFixa"):
            discount.refuse("descontoDataFixa", "deve ter ao menos uma data com as modalidades 1 e 2")
    else:
        if not discount.has("valorPerc"):
            discount.refuse("valorPerc", "é obrigatório com as modalidades 3 a 6")
        if discount.has("descontoDataFixa"):
            discount.refuse("descontoDataFixa", "não pode ser usado com as modalidades 3 a 6")
    return Discount(kind=kind, value=rate, dated=dated)


def _read_dated(discount: Members) -> tuple[DatedDiscount, ...]:
    dated: list[DatedDiscount] = []
    for each in discount.objects("descontoDataFixa") or ():
        until, rate = each.day("data"), each.amount("valorPerc")
        if until is not None and rate is not None:
            dated.append(DatedDiscount(until=until, value=rate))
    return tuple(dated)
