"""The central bank's API's charges, received Pix and returns, as our records.

Includes charges with a due date, and the parts of their payments. The standard numbers each kind by its place, from 1, in its
table of ``features/due_charges/rules/terms.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, TypeVar

from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS, UNTIL_A_DATE
from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.message import as_list, as_members
from pixconnect.features.institutions.profiles.account_traits import AnswerWords, ChargeWord, RefundWord
from pixconnect.features.institutions.rules.institution import ChargeTerms, ListedRefund, OpenedCharge, ReceivedPix
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules import charge_contents as contents
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX, check_location, parse_br_code
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX, UNKNOWN_PARTY, Party, describe_party
from pixconnect.kernel.rules.identifiers import is_end_to_end_id
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, format_reais
from pixconnect.kernel.rules.tax_id import is_cpf
from pixconnect.platform.base import errors
from pixconnect.platform.outgoing_text import trim_pasted

_DAYS_MAX: Final = 2**31 - 1
_DATED_MAX: Final = 100
_HUNDREDTHS: Final = re.compile(r"[0-9]{1,10}\.[0-9]{2}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PARTS: Final = dict(multa="fine_cents", juros="interest_cents", abatimento="rebate_cents", desconto="discount_cents")

_Kind = TypeVar("_Kind", bound=str)
_Part = TypeVar("_Part")


def write_calendar(terms: contents.DueTerms) -> dict[str, object]:
    return dict(dataDeVencimento=terms.due_on.isoformat(), validadeAposVencimento=terms.valid_days)


def write_value(terms: contents.DueTerms | None, amount_cents: int) -> dict[str, object]:
    value = dict[str, object](original=format_reais(amount_cents))
    if terms is None:
        return value
    parts = (
        ("multa", DEDUCTION_KINDS, terms.fine),
        ("juros", INTEREST_KINDS, terms.interest),
        ("abatimento", DEDUCTION_KINDS, terms.rebate),
        ("desconto", DISCOUNT_KINDS, terms.discount),
    )
    written = {name: _write_part(kinds, part.kind, part.value) for name, kinds, part in parts if part is not None}
    if terms.discount is not None and (dated := terms.discount.dated):
        rows = [dict(data=each.until.isoformat(), valorPerc=format_reais(each.value)) for each in dated]
        written["desconto"]["descontoDataFixa"] = rows
    return value | written


def _write_part(kinds: Sequence[str], kind: str, value: int | None) -> dict[str, object]:
    rate = {} if value is None else {"valorPerc": format_reais(value)}
    return {"modalidade": kinds.index(kind) + 1, **rate}


def decode_terms(calendar: Mapping[str, object], value: Mapping[str, object]) -> contents.DueTerms | None:
    """Read the terms of a charge with a due date, ``None`` for any other; ``Malformed`` if they are unreliable."""
    if "dataDeVencimento" not in calendar:
        return None
    is_given = "validadeAposVencimento" in calendar
    return contents.DueTerms(
        due_on=_take_day(calendar, "dataDeVencimento"),
        valid_days=wire.take_count(calendar, "validadeAposVencimento", _DAYS_MAX) if is_given else contents.VALID_DAYS,
        fine=_decode_part(value, "multa", DEDUCTION_KINDS, contents.Fine),
        interest=_decode_part(value, "juros", INTEREST_KINDS, contents.Interest),
        rebate=_decode_part(value, "abatimento", DEDUCTION_KINDS, contents.Rebate),
        discount=_decode_discount(value),
    )


def _decode_part(value: Mapping[str, object], name: str, kinds: Sequence[str], make: Callable[..., _Part]) -> _Part | None:
    part = _find_part(value, name)
    return None if part is None else make(kind=_take_kind(part, name, kinds), value=_take_hundredths(part))


def _decode_discount(value: Mapping[str, object]) -> contents.Discount | None:
    part = _find_part(value, "desconto")
    if part is None:
        return None
    kind = _take_kind(part, "desconto", DISCOUNT_KINDS)
    if kind not in UNTIL_A_DATE:
        return contents.Discount(kind=kind, value=_take_hundredths(part))
    rows = [as_members(row) or {} for row in wire.take_rows(part, "descontoDataFixa")[:_DATED_MAX]]
    dated = [contents.DatedDiscount(until=_take_day(row, "data"), value=_take_hundredths(row)) for row in rows]
    return contents.Discount(kind=kind, dated=tuple(dated))


def _find_part(value: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    part = value.get(name)
    found = as_members(part)
    if part is not None and found is None:
        raise wire.Malformed(f"{name} is no object")
    # Some write a missing part as an empty object.
    return found or None


def _take_kind(part: Mapping[str, object], name: str, kinds: Sequence[_Kind]) -> _Kind:
    stated = part.get("modalidade")
    # A text in the standard's own examples.
    number = int(stated) if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) == 1 else stated
    if type(number) is not int or not 1 <= number <= len(kinds):
        raise wire.Malformed(f"{name} has a modality that we do not know")
    return kinds[number - 1]


def _take_hundredths(part: Mapping[str, object], name: str = "valorPerc") -> int:
    return int(wire.take_text(part, name, 13, form=_HUNDREDTHS).replace(".", ""))


def _take_day(members: Mapping[str, object], name: str) -> date:
    text = wire.take_text(members, name, 10, form=_DAY)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise wire.Malformed(f"{name} is no day") from None


def find_parts(members: Mapping[str, object]) -> contents.DayAmount | None:
    """Find the parts of a received Pix; ``None`` if they are missing or unreadable.

    The Pix counts all the same: its parts are only shown.
    """
    components = as_members(members.get("componentesValor"))
    if components is None or any(name in components for name in ("saque", "troco")):
        return None
    try:
        original_cents = wire.take_reais(as_members(components.get("original")) or {}, "valor")
        parts = {ours: _take_cents(components[name]) for name, ours in _PARTS.items() if components.get(name) is not None}
    except wire.Malformed:
        return None
    return contents.DayAmount(original_cents=original_cents, **parts)


def _take_cents(part: object) -> int:
    cents = _take_hundredths(as_members(part) or {}, "valor")
    if cents > AMOUNT_MAX_CENTS:
        raise wire.Malformed("valor is no amount that a part of a Pix can have")
    return cents


_CHARGES: Final = dict[str, ChargeWord](
    ATIVA="active",
    CONCLUIDA="paid",
    REMOVIDA_PELO_USUARIO_RECEBEDOR="removed_by_us",
    REMOVIDA_PELO_PSP="removed_by_institution",
)
_REFUNDS: Final = dict[str, RefundWord](EM_PROCESSAMENTO="under_way", DEVOLVIDO="returned", NAO_REALIZADO="refused")
_TXID: Final = re.compile(r"[a-zA-Z0-9]{26,35}")
_REFUND_ID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_LIFETIME_MAX_S: Final = 2**31 - 1
_URL_MAX: Final = 300
_NAME_MAX: Final = 200
_MESSAGE_MAX: Final = 140
_REFUNDS_MAX: Final = 1000


def write_charge(terms: ChargeTerms) -> dict[str, object]:
    body = dict[str, object](
        calendario=write_calendar(terms.due) if terms.due else dict(expiracao=terms.lifetime_s),
        valor=write_value(terms.due, terms.amount_cents),
        chave=terms.key,
    )
    if (payer := terms.payer) is not None:
        debtor = {"cpf" if is_cpf(payer.tax_id) else "cnpj": payer.tax_id, "nome": payer.name}
        if (address := terms.address) is not None:
            named = dict(email=address.email, logradouro=address.street, cidade=address.city, uf=address.state)
            named["cep"] = address.postal_code
            debtor |= {name: text for name, text in named.items() if text is not None}
        body["devedor"] = debtor
    if terms.question:
        body["solicitacaoPagador"] = terms.question
    if terms.lines:
        body["infoAdicionais"] = [{"nome": line.name, "valor": line.value} for line in terms.lines]
    return body


def decode_charge(members: Mapping[str, object], words: AnswerWords) -> OpenedCharge:
    """Read a charge's present state at the institution; ``Malformed`` if any of it is unreliable."""
    calendar, amount = wire.take_members(members, "calendario"), wire.take_members(members, "valor")
    located = as_members(members.get("loc")) or {}
    location = wire.find_text(members, "location", _URL_MAX) or wire.find_text(located, "location", _URL_MAX)
    due = decode_terms(calendar, amount)
    codes = (wire.find_text(members, name, _URL_MAX * 2) for name in ("pixCopiaECola", *words.codes))
    return OpenedCharge(
        txid=wire.take_text(members, "txid", 35, form=_TXID),
        key=wire.find_text(members, "chave", KEY_LENGTH_MAX),
        amount_cents=wire.take_reais(amount, "original"),
        status=wire.take_status(members, {**_CHARGES, **words.charges}),
        created_at=wire.take_instant(calendar, "criacao"),
        lifetime_s=0 if due is not None else wire.take_count(calendar, "expiracao", _LIFETIME_MAX_S),
        due=due,
        code=next((check_code(text) for text in codes if text), None),
        location=None if location is None else _find_location(location.removeprefix("https://")),
        revision=wire.take_count(members, "revisao", _LIFETIME_MAX_S) if "revisao" in members else 0,
        # Only a help for the query: the list finds Pix without a valid name here.
        paid_by=[
            name
            for row in as_list(members.get("pix")) or ()
            if isinstance(name := (as_members(row) or {}).get("endToEndId"), str) and is_end_to_end_id(name)
        ],
    )


def _find_location(text: str) -> str | None:
    # An invalid location leads to no code.
    try:
        check_location(text, "location")
    except errors.Refusal:
        return None
    return text


def check_code(text: str) -> str:
    """Check that a payer's app can read a code: a broken one is not shown."""
    text = trim_pasted(text)
    try:
        parse_br_code(text[: BR_CODE_LENGTH_MAX + 1])
    except errors.Refusal:
        raise wire.Malformed("the charge's code cannot be read") from None
    return text


def decode_pix(item: object, words: AnswerWords) -> tuple[ReceivedPix, Sequence[MalformedItem]]:
    """Read a received Pix, and those of its returns that are unreadable."""
    members = as_members(item)
    if members is None:
        raise wire.Malformed("the item is no object")
    refunds, unreadable = list[ListedRefund](), list[MalformedItem]()
    end_to_end_id = wire.take_end_to_end_id(members, "endToEndId")
    listed = members.get("devolucoes")
    rows: Sequence[object] | None = () if listed is None else as_list(listed)
    if rows is None or len(rows) > _REFUNDS_MAX:
        raise wire.Malformed("devolucoes is no list of returns")
    # An unreadable return is kept for an operator; its Pix is credited all the same.
    for row in rows:
        try:
            refunds.append(decode_refund(as_members(row) or {}, words))
        except wire.Malformed as error:
            kept = wire.as_malformed({"endToEndId": end_to_end_id, "devolucao": row}, f"devolucoes: {error.reason}")
            unreadable.append(kept)
    pix = ReceivedPix(
        end_to_end_id=end_to_end_id,
        txid=wire.find_any_txid(members, "txid"),
        key=wire.find_text(members, "chave", KEY_LENGTH_MAX),
        amount_cents=wire.take_reais(members, "valor"),
        settled_at=wire.take_instant(members, "horario"),
        payer=read_payer(members),
        payer_message=wire.find_free_text(members, "infoPagador", _MESSAGE_MAX),
        parts=find_parts(members),
        refunds=refunds,
    )
    return pix, unreadable


def read_items(rows: Sequence[object], words: AnswerWords) -> Sequence[ReceivedPix | MalformedItem]:
    items = list[ReceivedPix | MalformedItem]()
    for found in wire.read_each(rows, lambda row: decode_pix(row, words)):
        items += [found] if isinstance(found, MalformedItem) else [found[0], *found[1]]
    return wire.bound_malformed(items)


def decode_refund(members: Mapping[str, object], words: AnswerWords) -> ListedRefund:
    status: RefundWord = wire.take_status(members, {**_REFUNDS, **words.refunds})
    instants = as_members(members.get("horario")) or {}
    settled_at = wire.find_instant(instants, "liquidacao")
    return ListedRefund(
        id=wire.take_text(members, "id", 35, form=_REFUND_ID),
        return_id=wire.find_return_id(members, "rtrId"),
        amount_cents=wire.take_reais(members, "valor"),
        status=status,
        asked_at=wire.find_instant(instants, "solicitacao"),
        settled_at=settled_at if status == "returned" else None,
        reason=wire.find_free_text(members, "motivo", _MESSAGE_MAX),
    )


def read_payer(members: Mapping[str, object]) -> Party:
    """Read the payer, if reported; unreadable members are unknown, and the Pix counts all the same."""
    payer = as_members(members.get("pagador")) or as_members((as_members(members.get("gnExtras")) or {}).get("pagador"))
    if payer is None:
        return UNKNOWN_PARTY
    account = as_members(payer.get("contaBanco")) or {}
    ispb = wire.find_free_text(account, "codigoBanco", 8) or wire.find_free_text(payer, "codigoBanco", 8)
    return describe_party(
        name=wire.find_free_text(payer, "nome", _NAME_MAX),
        tax_id=wire.find_free_text(payer, "cpf", 18) or wire.find_free_text(payer, "cnpj", 18),
        ispb=wire.check_ispb(ispb),
    )
