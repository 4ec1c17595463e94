"""Whose a key is, and how many may still be looked up, as Woovi tells it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.woovi.paging import read_name
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import identifiers
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.money import pix_key, tax_id
from pixconnect.domain.money.pix_key import KEY_LENGTH_MAX
from pixconnect.usecases.money import prepared_transfer as prepared_usecases

_HIDDEN: Final = "****"
_REFRESH: Final = timedelta(minutes=1)


class ChavePedida(Struct, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)] = field(name="pixKey")


class DonoDaChave(Struct, frozen=True, kw_only=True):
    account: str = _HIDDEN
    branch: str = _HIDDEN
    psp: str
    name: str
    tax_id: str = field(name="taxID")


class ChaveConferida(Struct, frozen=True, kw_only=True, rename="camel"):
    key: str = field(name="pixKey")
    kind: str = field(name="type")
    lookup_id: str = field(name="pixKeyEndToEndId")
    owner: DonoDaChave


class FichasDeConsulta(Struct, frozen=True, kw_only=True, rename="camel"):
    """Quantas chaves ainda podem ser consultadas."""

    tokens: int
    max_tokens: int
    next_refresh: str
    tokens_after_refresh: int
    refresh_rate: int


async def check_key_in_path(face: Face, services: Services, request: Asked) -> Reply:
    """De quem é uma chave."""
    return await _check(services, request, read_name(request))


async def check_key_in_body(face: Face, services: Services, request: Asked) -> Reply:
    """De quem é uma chave, que vem no corpo."""
    violations = Violations("pixKey")
    text = Members(violations, ChavePedida, request.body.require("pixKey"), "").text("pixKey")
    violations.raise_if_any()
    return await _check(services, request, text or "")


async def _check(services: Services, request: Asked, text: str) -> Reply:
    context = services.context
    key = pix_key.parse_pix_key(text)
    party = await prepared_usecases.find_key(context, request.caller, key)
    record = ChaveConferida(
        key=key.key,
        kind=key.key_type,
        lookup_id=identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy),
        owner=DonoDaChave(psp=party.ispb, name=party.name, tax_id=_mask(party.tax_id)),
    )
    return Reply(status=200, record=record)


async def read_tokens(face: Face, services: Services, request: Asked) -> Reply:
    """As fichas para a consulta de chaves."""
    context = services.context
    policy, left = await context.lookups.read_left(context, request.caller.holder_id)
    record = FichasDeConsulta(
        tokens=left,
        max_tokens=policy.tokens_max,
        next_refresh=format_milliseconds(context.clock.now() + _REFRESH),
        tokens_after_refresh=min(policy.tokens_max, left + policy.refill_a_minute),
        refresh_rate=policy.refill_a_minute,
    )
    return Reply(status=200, record=record)


def _mask(number: str) -> str:
    if tax_id.is_cpf(number):
        return f"{number[:3]}.***.***-{number[-2:]}"
    return f"{number[:2]}.{number[2:5]}.{number[5:8]}/{number[8:12]}-{number[12:]}"
