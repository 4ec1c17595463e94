"""Bodies of charges, immediate and with a due date: read member by member, so that one answer has all errors.

``features/due_charges/rules`` checks terms of a due date once their form is right, merged with a revision's unchanged terms.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, TypeVar

from msgspec import Struct, structs

from pixconnect.features.due_charges.api import CobVRevisada, CobVSolicitada
from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS, UNTIL_A_DATE
from pixconnect.features.pix_api.api.charge_records import CobRevisada, CobSolicitada
from pixconnect.features.pix_api.api.violations import Members, Violations
from pixconnect.kernel.rules import charge_contents, holder
from pixconnect.kernel.rules.location import AT_ONCE, WITH_DUE_DATE, LocationKind

PartT = TypeVar("PartT", charge_contents.Fine, charge_contents.Interest, charge_contents.Rebate)

# What a put leaves out; whatever else is missing is a violation.
_NO_DUE_CONTENTS: Final = charge_contents.ChargeContents(
    lifetime_s=0, amount_cents=0, key="", due=charge_contents.DueTerms(due_on=date.min)
)


class ChargePut(Struct, frozen=True):
    contents: charge_contents.ChargeContents
    location_id: int | None


class ChargePatch(Struct, frozen=True):
    change: charge_contents.ContentsChange
    location_id: int | None
    removes: bool


def read_put(members: Mapping[str, object]) -> ChargePut:
    """Read a charge's complete contents; raises ``Violated``."""
    body = Members(Violations(AT_ONCE), CobSolicitada, members)
    change, location_id = _read_change(body, is_whole=True)
    body.raise_if_any()
    # As ``change_contents``, in a third of the time.
    contents = charge_contents.ChargeContents(
        lifetime_s=change.lifetime_s or charge_contents.LIFETIME_S,
        amount_cents=change.amount_cents or 0,
        may_change_amount=change.may_change_amount,
        key=change.key or "",
        payer=change.payer,
        question=change.question,
        lines=change.lines or (),
    )
    return ChargePut(contents, location_id)


def read_patch(entity: LocationKind, members: Mapping[str, object]) -> ChargePatch:
    """Read a charge's changes; raises ``Violated``."""
    record, read = (CobRevisada, _read_change) if entity == AT_ONCE else (CobVRevisada, _read_due_change)
    body = Members(Violations(entity), record, members, refuses_null=True)
    change, location_id = read(body)
    removes = body.choice("status") is not None
    others = (each.encode_name for each in structs.fields(record) if each.name != "status")
    # A removed charge has nothing left to change, so a change in the same request is a mistake.
    if removes and any(map(body.has, others)):
        body.refuse("status", "a cobrança não pode ser removida junto com outras alterações")
    body.raise_if_any()
    return ChargePatch(change, location_id, removes)


def _read_change(body: Members, *, is_whole: bool = False) -> tuple[charge_contents.ContentsChange, int | None]:
    # In the standard's order of violations.
    calendar = body.object("calendario")
    lifetime_s = None if calendar is None else calendar.integer("expiracao")
    amount_cents, may_change_amount = _read_value(body, is_whole=is_whole)
    debtor = body.object("devedor")
    payer = None if debtor is None else _read_person(body, debtor)
    key = _read_own_key(body)
    question = body.text("solicitacaoPagador")
    lines = _read_added_lines(body)
    change = charge_contents.ContentsChange(
        lifetime_s=lifetime_s,
        amount_cents=amount_cents,
        may_change_amount=may_change_amount,
        key=key,
        payer=payer,
        # An empty one changes nothing, and a patch removes nothing.
        question=question or None,
        lines=lines or None,
    )
    return change, _read_wanted_location(body)


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


def _read_person(body: Members, debtor: Members) -> charge_contents.Payer | None:
    cpf, cnpj = debtor.tax_id("cpf"), debtor.tax_id("cnpj")
    if debtor.has("cpf") and debtor.has("cnpj"):
        debtor.refuse("cnpj", "não pode ser usado junto com cpf")
    elif not debtor.has("cpf") and not debtor.has("cnpj"):
        body.refuse("devedor", "deve ter cpf ou cnpj")
    name = debtor.text("nome")
    found = cpf or cnpj
    return None if name is None or found is None else charge_contents.Payer(name=name, tax_id=found)


def _read_own_key(body: Members) -> str | None:
    # With the punctuation that people write, which its normal form lacks.
    found = body.pix_key("chave", length_max=holder.SENT_LENGTH_MAX)
    return None if found is None else found.key


def _read_added_lines(body: Members) -> tuple[charge_contents.Line, ...] | None:
    sent = body.objects("infoAdicionais")
    if sent is None:
        return None
    lines: list[charge_contents.Line] = []
    for line in sent:
        name, value = line.text("nome"), line.text("valor")
        if name is not None and value is not None:
            lines.append(charge_contents.Line(name=name, value=value))
    return tuple(lines)


def _read_wanted_location(body: Members) -> int | None:
    location = body.object("loc")
    return None if location is None else location.integer("id")


def read_due_put(members: Mapping[str, object]) -> ChargePut:
    """Read a charge's complete contents; raises ``Violated``."""
    body = Members(Violations(WITH_DUE_DATE), CobVSolicitada, members)
    change, location_id = _read_due_change(body)
    body.raise_if_any()
    return ChargePut(charge_contents.change_contents(_NO_DUE_CONTENTS, change), location_id)


def _read_due_change(body: Members) -> tuple[charge_contents.ContentsChange, int | None]:
    # In the standard's order of violations.
    calendar = body.object("calendario")
    due_on = None if calendar is None else calendar.day("dataDeVencimento")
    valid_days = None if calendar is None else calendar.integer("validadeAposVencimento")
    payer, address = _read_debtor(body)
    key = _read_own_key(body)
    question = body.text("solicitacaoPagador")
    lines = _read_added_lines(body)
    location_id = _read_wanted_location(body)
    value = body.object("valor")
    amount_cents = None if value is None else value.amount("original")
    if value is not None and amount_cents == 0:
        value.refuse("original", "deve ser maior que 0.00")
    due = charge_contents.DueChange(
        due_on=due_on,
        valid_days=valid_days,
        fine=_read_part(value, "multa", DEDUCTION_KINDS, charge_contents.Fine),
        interest=_read_part(value, "juros", INTEREST_KINDS, charge_contents.Interest),
        rebate=_read_part(value, "abatimento", DEDUCTION_KINDS, charge_contents.Rebate),
        discount=None if value is None else _read_discount(value),
    )
    change = charge_contents.ContentsChange(
        amount_cents=amount_cents,
        key=key,
        payer=payer,
        address=address,
        # An empty one changes nothing, and a patch removes nothing.
        question=question or None,
        lines=lines or None,
        due=due,
    )
    return change, location_id


def _read_debtor(body: Members) -> tuple[charge_contents.Payer | None, charge_contents.PayerAddress | None]:
    debtor = body.object("devedor")
    if debtor is None:
        return None, None
    payer = _read_person(body, debtor)
    address = charge_contents.PayerAddress(
        email=debtor.text("email") or None,
        street=debtor.text("logradouro") or None,
        city=debtor.text("cidade") or None,
        state=debtor.text("uf") or None,
        postal_code=debtor.text("cep") or None,
    )
    return payer, None if address == charge_contents.PayerAddress() else address


def _read_part(value: Members | None, member: str, kinds: Sequence[str], record: Callable[..., PartT]) -> PartT | None:
    part = None if value is None else value.object(member)
    if part is None:
        return None
    modality, rate = part.integer("modalidade"), part.amount("valorPerc")
    return None if modality is None or rate is None else record(kind=kinds[modality - 1], value=rate)


def _read_discount(value: Members) -> charge_contents.Discount | None:
    discount = value.object("desconto")
    if discount is None:
        return None
    modality, rate = discount.integer("modalidade"), discount.amount("valorPerc")
    dated = _read_dated(discount)
    if modality is None:
        return None
    kind: charge_contents.DiscountKind = DISCOUNT_KINDS[modality - 1]
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
    return charge_contents.Discount(kind=kind, value=rate, dated=dated)


def _read_dated(discount: Members) -> tuple[charge_contents.DatedDiscount, ...]:
    dated: list[charge_contents.DatedDiscount] = []
    for each in discount.objects("descontoDataFixa") or ():
        until, rate = each.day("data"), each.amount("valorPerc")
        if until is not None and rate is not None:
            dated.append(charge_contents.DatedDiscount(until=until, value=rate))
    return tuple(dated)
