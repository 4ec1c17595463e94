"""Whose a key is, and how many may still be looked up, as Woovi tells it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.api.faces.frame import Face, Shown
from pixconnect.api.faces.woovi.paging import read_name
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame import identifiers
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.money import pix_key, tax_id
from pixconnect.domain.money.pix_key import KEY_LENGTH_MAX
from pixconnect.usecases.money import prepared_transfer as prepared_usecases

_HIDDEN: Final = "****"
_REFRESH: Final = timedelta(minutes=1)


class ChavePedida(Struct, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)] = field(name="pixKey")


async def check_key_in_path(face: Face, services: Services, request: Asked) -> Shown:
    """De quem é uma chave."""
    return await _check(services, request, read_name(request))


async def check_key_in_body(face: Face, services: Services, request: Asked) -> Shown:
    """De quem é uma chave, que vem no corpo."""
    body = request.body.under(ChavePedida, "pixKey", "")
    text = body.text("pixKey")
    body.raise_if_any()
    return await _check(services, request, text or "")


async def _check(services: Services, request: Asked, text: str) -> Shown:
    context = services.context
    key = pix_key.parse_pix_key(text)
    party = await prepared_usecases.find_key(context, request.caller, key)
    owner = dict(account=_HIDDEN, branch=_HIDDEN, psp=party.ispb, name=party.name, taxID=_mask(party.tax_id))
    return {
        "pixKey": key.key,
        "type": key.key_type,
        "pixKeyEndToEndId": identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy),
        "owner": owner,
    }


async def read_tokens(face: Face, services: Services, request: Asked) -> Shown:
    """As fichas para a consulta de chaves."""
    context = services.context
    policy, left = await context.lookups.read_left(context, request.caller.holder_id)
    return {
        "tokens": left,
        "maxTokens": policy.tokens_max,
        "nextRefresh": format_milliseconds(context.clock.now() + _REFRESH),
        "tokensAfterRefresh": min(policy.tokens_max, left + policy.refill_a_minute),
        "refreshRate": policy.refill_a_minute,
    }


def _mask(number: str) -> str:
    if tax_id.is_cpf(number):
        return f"{number[:3]}.***.***-{number[-2:]}"
    return f"{number[:2]}.{number[2:5]}.{number[5:8]}/{number[8:12]}-{number[12:]}"
