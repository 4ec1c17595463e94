"""Lots of charges with a due date (``lotecobv``) in the standard API.

Errors of the lot are refused at once. Errors of one of its charges, including its form, are reported with that charge.
"""

import asyncio
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Final, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Meta, Raw, Struct, field

from pixconnect.doors.api.operation import Nothing, Reply, Services
from pixconnect.features.due_charges.api import CobVRevisada, CobVSolicitada
from pixconnect.features.locations.problem import ProblemaDoItem, StandardWords, Types, describe_rows
from pixconnect.features.lots import rules as lot_rules
from pixconnect.features.lots import service as lot_usecases
from pixconnect.features.lots.service import ENTITY, ITEMS, NewItem, ShownLot
from pixconnect.features.pix_api.api import charge_body, frame
from pixconnect.features.pix_api.api.charge_body import ChargePatch, ChargePut
from pixconnect.features.pix_api.api.charge_records import Txid
from pixconnect.features.pix_api.api.frame import Asked, Body, Parametros, PeriodQuery, refuse_repeated_member
from pixconnect.features.pix_api.api.frame import StandardOperation as Row
from pixconnect.features.pix_api.api.violations import TXID, Members, Violations, list_members
from pixconnect.features.pix_api.rules import LOT_NUMBER_MAX
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.json_members import RepeatedMember, list_names, refuse_repeated

BODY_MAX: Final = 4 * 1024 * 1024  # in bytes: a thousand charges with the maximum contents

AskedT = TypeVar("AskedT", ChargePut, ChargePatch)
ItemStatusShown = Literal["EM_PROCESSAMENTO", "CRIADA", "NEGADA"]
_Descricao = Annotated[str, Meta(min_length=1, max_length=lot_rules.DESCRIPTION_LENGTH_MAX)]


class CobVDoLote(CobVSolicitada, frozen=True, kw_only=True, rename="camel"):
    """Uma cobrança do lote a criar, ou o conteúdo que substitui o da que já foi criada."""

    txid: Txid
    """O identificador da cobrança; cada um aparece uma só vez."""


class CobVRevisadaDoLote(CobVRevisada, frozen=True, kw_only=True, rename="camel"):
    """O que muda de uma cobrança do lote; de uma que não foi criada, o que muda do pedido de criação."""

    txid: Txid
    """O identificador da cobrança; cada um aparece uma só vez."""


class LoteCobVSolicitado(Struct, frozen=True, kw_only=True):
    """Um lote a criar, ou pedidos para todas as cobranças de um que existe."""

    descricao: _Descricao
    """Um nome para o lote."""
    cobsv: Annotated[Sequence[CobVDoLote], Meta(min_length=1, max_length=lot_rules.ITEMS_MAX)]
    """As cobranças; de um lote que existe, exatamente as mesmas."""


class LoteCobVRevisado(Struct, frozen=True, kw_only=True):
    """Pedidos para algumas cobranças de um lote."""

    descricao: _Descricao | None = None
    """Um nome para o lote."""
    cobsv: Annotated[Sequence[CobVRevisadaDoLote], Meta(min_length=1, max_length=lot_rules.ITEMS_MAX)] | None = None
    """Cobranças do lote."""


class ItemDoLote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Uma cobrança do lote, e em que deu o último pedido."""

    criacao: Instante | None = None
    """Quando a cobrança foi criada; presente com CRIADA."""
    txid: Txid
    """O identificador da cobrança."""
    status: ItemStatusShown
    """EM_PROCESSAMENTO, depois CRIADA ou NEGADA; uma mudança NEGADA deixa a cobrança como estava."""
    problema: ProblemaDoItem | None = None
    """Por que o pedido foi negado; presente com NEGADA."""


class LoteCobVConsultado(Struct, frozen=True, kw_only=True):
    """Um lote de cobranças com vencimento."""

    numero: Annotated[int, Meta(ge=1, le=LOT_NUMBER_MAX)] = field(name="id")
    """O identificador do lote."""
    descricao: str
    """O nome do lote."""
    criacao: Instante
    """Quando o lote foi pedido."""
    cobsv: Sequence[ItemDoLote]
    """As cobranças, na ordem em que foram pedidas."""


class LoteCobVListQuery(PeriodQuery, frozen=True, kw_only=True):
    """De quando e qual página."""


class LotesCobVConsultados(Struct, frozen=True, kw_only=True):
    """Uma página de lotes."""

    parametros: Parametros
    """O que foi pedido."""
    lotes: Sequence[LoteCobVConsultado]
    """Os lotes, do mais novo ao mais antigo."""


_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_YIELD_AFTER: Final = 25  # charges per step: the process's other requests do not wait for a thousand
_TRIES_MAX: Final = 3
_SHOWN: Final[Mapping[lot_rules.ItemStatus, ItemStatusShown]] = dict(
    zip(get_args(lot_rules.ItemStatus), get_args(ItemStatusShown), strict=True)
)
"""Both list them in the same order."""
_MERGED: Final = ("calendario", "valor")  # members of a charge that a patch may change in part


_read_raw: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_list_raw: Final = msgspec.json.Decoder(list[Raw]).decode
_NAMES: Final = list_names(LoteCobVRevisado)


_Sent = Mapping[str, Mapping[str, object]]
"""The members of the named charges, by txid."""


async def put_lot(services: Services, request: Asked) -> Reply:
    """Pede a criação de um lote de cobranças com vencimento, ou a mudança de todas as de um que existe.

    Cada cobrança é feita depois, uma a uma; `GET /lotecobv/{id}` diz em que deu cada uma.
    """
    violations = Violations(ENTITY)
    (text,) = request.parameter
    if not _NUMBER.fullmatch(text):
        violations.add("id", "deve ser um número inteiro de 1 a 18 dígitos, sem zeros à esquerda", text)
    violations.raise_if_any()
    description, sent = await _read_body(services, request, LoteCobVSolicitado, is_change=False)
    items: list[NewItem] = []
    for txid, members in sent.items():
        await _yield_loop(items)
        put, refusal = _judge(charge_body.read_due_put, members)
        asked = lot_rules.WantedItem(
            contents=put and put.contents, contents_refusal=refusal, location_id=put and put.location_id
        )
        items.append(NewItem(txid=txid, asked=asked, wanted=_write(txid, members)))
    await lot_usecases.put_lot(services.context, request.caller, int(text), description or "", items)
    return Reply(status=202)


async def patch_lot(services: Services, request: Asked) -> Reply:
    """Pede a mudança de algumas cobranças de um lote, ou muda só a descrição dele."""
    number = _read_number(request)
    lot, known = await lot_usecases.find_lot(services.context, request.caller, number)
    description, sent = await _read_body(services, request, LoteCobVRevisado, is_change=True)
    for _ in range(_TRIES_MAX):
        items = await _read_patches(known, sent)
        if await lot_usecases.patch_lot(services.context, request.caller, lot, description, items):
            return Reply(status=202)
        lot, known = await lot_usecases.find_lot(services.context, request.caller, number)
    raise errors.ServiceUnavailable("others change this lot at the same time; nothing was done")


async def get_lot(services: Services, request: Asked) -> Reply:
    """Consulta um lote, e em que deu cada uma das suas cobranças até agora."""
    found = await lot_usecases.read_lot(services.context, request.caller, _read_number(request))
    return Reply(status=200, record=await _show(found))


async def list_lots(services: Services, request: Asked) -> Reply:
    """Lista lotes de cobranças com vencimento, do mais novo ao mais antigo."""
    parameters = request.query.under(LoteCobVListQuery, ENTITY)
    interval, asked = frame.read_interval(parameters), frame.read_page(parameters)
    parameters.raise_if_any()
    page = await lot_usecases.list_lots(services.context, request.caller, frame.make_span(interval, asked))
    parametros = frame.describe(interval, asked, page.total_count, Parametros)
    lots = [await _show(each) for each in page.items]
    return Reply(status=200, record=LotesCobVConsultados(parametros=parametros, lotes=lots))


def _read_number(request: Asked) -> int:
    # Any other form matches nothing.
    (text,) = request.parameter
    if not _NUMBER.fullmatch(text):
        raise errors.NotFound("id: there is no such lot")
    return int(text)


async def _read_body(services: Services, request: Asked, record: type[Struct], *, is_change: bool) -> tuple[str | None, _Sent]:
    """Read the description and the named charges, which count as requests."""
    violations, members = Violations(ENTITY), request.body.require(ENTITY)
    description = Members(violations, record, members, refuses_null=is_change).text("descricao")
    sent = _read_items(violations, members, is_required=not is_change)
    violations.raise_if_any()
    # The request itself counts as the first.
    if services.rates is not None and len(sent) > 1:
        services.rates.spend_more(request.caller, len(sent) - 1)
    await _refuse_repeated(request.body)
    return description, sent


def _read_items(violations: Violations, members: Mapping[str, object], *, is_required: bool) -> _Sent:
    """Read the named charges: objects, each with its own txid."""
    # The standard's own rules spell it differently from the member.
    if "cobsv" not in members and not is_required:
        return {}
    sent = members.get("cobsv")
    if not isinstance(sent, list) or not 1 <= len(cast("list[object]", sent)) <= lot_rules.ITEMS_MAX:
        violations.add(ITEMS, f"deve ser uma lista de 1 a {lot_rules.ITEMS_MAX} cobranças", cast("object", sent))
        return {}
    found: dict[str, Mapping[str, object]] = {}
    for place, item in enumerate(cast("list[object]", sent)):
        txid = cast("dict[str, object]", item).get("txid") if isinstance(item, dict) else None
        if not isinstance(item, dict):
            violations.add(ITEMS, f"o elemento {place} deve ser um objeto", item)
        elif not isinstance(txid, str) or not TXID.fullmatch(txid):
            violations.add(ITEMS, f"o txid do elemento {place} deve ter de 26 a 35 letras e dígitos", txid)
        elif txid in found:
            violations.add(ITEMS, f"o txid do elemento {place} já é de outro elemento", txid)
        else:
            found[txid] = cast("dict[str, object]", item)
    return found


async def _refuse_repeated(body: Body) -> None:
    """Refuse repeated members of a long lot, charge by charge, and in the rest of the body."""
    if not body.unjudged:
        return
    # It was read before, so it is an object with a list of objects, if any.
    octets = body.unjudged.removeprefix(BOM_UTF8)
    items = bytes(_read_raw(octets).get("cobsv", b"[]"))
    try:
        refuse_repeated(octets.replace(items, b"[]"), _NAMES)
        for number, item in enumerate(_list_raw(items)):
            if number % _YIELD_AFTER == 0:
                await asyncio.sleep(0)
            refuse_repeated(bytes(item), _NAMES)
    except RepeatedMember as error:
        raise refuse_repeated_member(error) from None


async def _read_patches(known: Sequence[lot_rules.LotItem], sent: _Sent) -> Sequence[NewItem]:
    wanted = {item.txid: item.wanted for item in known}
    items: list[NewItem] = []
    for txid, members in sent.items():
        await _yield_loop(items)
        before = wanted.get(txid)
        merged = members if before is None else _merge(_read_wanted(txid, before), members)
        items.append(NewItem(txid=txid, asked=_read_patch(members, merged), wanted=_write(txid, merged)))
    return items


async def _yield_loop(done: Sequence[object]) -> None:
    if done and len(done) % _YIELD_AFTER == 0:
        await asyncio.sleep(0)


def _read_patch(members: Mapping[str, object], merged: Mapping[str, object]) -> lot_rules.WantedItem:
    """Read a patch both ways: for an existing charge, and for one not made yet, merged with earlier requests."""
    put, contents_refusal = _judge(charge_body.read_due_put, merged)
    patch, change_refusal = _judge(partial(charge_body.read_patch, WITH_DUE_DATE), members)
    return lot_rules.WantedItem(
        contents=put and put.contents,
        contents_refusal=contents_refusal,
        change=patch and patch.change,
        change_refusal=change_refusal,
        is_change=True,
        location_id=put and put.location_id,
        change_location_id=patch and patch.location_id,
        removes=patch is not None and patch.removes,
    )


def _judge(
    read: Callable[[Mapping[str, object]], AskedT], members: Mapping[str, object]
) -> tuple[AskedT | None, lot_rules.Refusal]:
    try:
        return read(members), ()
    except Violated as violated:
        return None, tuple(violated.rows)


def _merge(before: Mapping[str, object], members: Mapping[str, object]) -> Mapping[str, object]:
    """Merge as a patch changes a charge: some members in part, and the others as a whole."""
    merged = {**before, **members}
    for name in _MERGED:
        one, other = before.get(name), members.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            merged[name] = {**cast("dict[str, object]", one), **cast("dict[str, object]", other)}
    return merged


def _write(txid: str, members: Mapping[str, object]) -> str:
    # As escapes: texts that PostgreSQL cannot store are refused with their charge, and shown there.
    known = {name: members[name] for name in list_members(CobVSolicitada) if name in members}
    try:
        return json.dumps(known, separators=(",", ":"))
    except RecursionError:
        raise _refuse_depth(txid) from None


def _read_wanted(txid: str, text: str) -> Mapping[str, object]:
    try:
        return json.loads(text)
    except RecursionError:
        raise _refuse_depth(txid) from None


def _refuse_depth(txid: str) -> Violated:
    # The members are unknown: reading them would fail again.
    return Violated(ENTITY, [Violation(property=ITEMS, reason="tem membros aninhados fundo demais", value=txid)])


async def _show(shown: ShownLot) -> LoteCobVConsultado:
    items: list[ItemDoLote] = []
    for each in shown.items:
        await _yield_loop(items)
        items.append(
            ItemDoLote(
                criacao=format_milliseconds(each.made_at) if each.status == "CREATED" and each.made_at else None,
                txid=each.txid,
                status=_SHOWN[each.status],
                problema=describe_rows(each.refusal) if each.refusal is not None else None,
            )
        )
    lot = shown.lot
    return LoteCobVConsultado(
        numero=lot.number, descricao=lot.description, criacao=format_milliseconds(lot.created_at), cobsv=items
    )


_LOTE: Final = Types(missing="LoteCobVNaoEncontrado", invalid="LoteCobVOperacaoInvalida")
_LOTE_ASKED: Final = Types(missing="LoteCobVNaoEncontrado", invalid="LoteCobVConsultaInvalida")
# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
OPERATIONS: Final = (
    Row("lotecobv.criar", "PUT", "/lotecobv/{id}", "lotecobv.write", _LOTE,
        Nothing, LoteCobVSolicitado, 202, Nothing, put_lot, BODY_MAX),
    Row("lotecobv.revisar", "PATCH", "/lotecobv/{id}", "lotecobv.write", _LOTE,
        Nothing, LoteCobVRevisado, 202, Nothing, patch_lot, BODY_MAX),
    Row("lotecobv.consultar", "GET", "/lotecobv/{id}", "lotecobv.read", _LOTE_ASKED,
        Nothing, Nothing, 200, LoteCobVConsultado, get_lot),
    Row("lotecobv.listar", "GET", "/lotecobv", "lotecobv.read", Types(invalid="LoteCobVConsultaInvalida"),
        LoteCobVListQuery, Nothing, 200, LotesCobVConsultados, list_lots),
)
# fmt: on

_LOT: Final = dict(id="$request.path.id")
WORDS: Final = (
    StandardWords(
        titles=dict(
            LoteCobVNaoEncontrado="Lote de cobranças com vencimento não encontrado",
            LoteCobVOperacaoInvalida="Lote de cobranças com vencimento inválido",
            LoteCobVConsultaInvalida="Consulta de lotes de cobranças com vencimento inválida",
        ),
        tags=dict(lotecobv="Lotes de cobranças com vencimento."),
        path_parameters={
            "/lotecobv/{id}": (
                "O seu identificador do lote.",
                dict(type="integer", format="int64", minimum=1, maximum=LOT_NUMBER_MAX),
            )
        },
        links={"lotecobv.criar": {"lotecobv.consultar": _LOT, "lotecobv.revisar": _LOT}},
    ),
)
