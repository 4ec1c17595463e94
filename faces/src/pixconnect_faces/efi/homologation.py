"""Automatic acts of Efi's test environment, by amount: a returned send, and a rejected refund."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import structs

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api.frame import Asked, Body
from pixconnect.features.pix_api.rules import Shown
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect_faces.frame import Face, FaceResponder

_TRIES_MAX: Final = 100
_TRY_EVERY_S: Final = 0.1
_under_way: Final[set[asyncio.Task[None]]] = set()


async def pay_soon(services: Services, caller: Caller, code: str) -> None:
    """Pay a newly made charge; failures are retried, and do not reach its maker."""

    async def pay() -> None:
        await sandbox_usecases.pay_by_code(services.context, caller, code, None)

    # A charge is paid once, so a step of unknown outcome is not repeated.
    passing = (errors.ServiceUnavailable, errors.OutcomeUnknown)
    try:
        await pay()
    except passing:
        _try_later(pay, passing)


def give_back_later(face: Face, services: Services, caller: Caller, transfer: Transfer) -> None:
    """Return the send's amount-dependent part for the payee, once it has settled.

    If this process dies before, nothing is returned.
    """
    parts = list(face.profile.homologation.returned_cents.get(str(transfer.amount_cents), ()))
    if not face.is_homologation or not parts or transfer.is_book:
        return

    async def give_back() -> None:
        while parts:
            await sandbox_usecases.give_back(services.context, caller, transfer.end_to_end_id, parts[0], "MD06")
            del parts[0]

    # It has not settled yet, or the sandbox is away. A return of unknown outcome is not repeated.
    _try_later(give_back, (errors.OriginalNotRefundable, errors.ServiceUnavailable))


def _try_later(step: Callable[[], Awaitable[None]], passing: tuple[type[errors.PixConnectError], ...]) -> None:
    """Run it in the background, with retries after temporary errors."""
    task = asyncio.create_task(_repeat(step, passing))
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)


async def _repeat(step: Callable[[], Awaitable[None]], passing: tuple[type[errors.PixConnectError], ...]) -> None:
    for _ in range(_TRIES_MAX):
        await asyncio.sleep(_TRY_EVERY_S)
        try:
            await step()
        except passing:
            continue
        except errors.PixConnectError:
            pass
        return


async def refund_or_reject(respond: FaceResponder, face: Face, services: Services, request: Asked) -> Reply | Document | Shown:
    """Make the network reject the one amount whose refund fails in that environment."""
    rules, members = face.profile.homologation, request.body.members or {}
    if members.get("valor") == format_reais(rules.refund_rejected_cents):
        request = structs.replace(request, body=Body({**members, "descricao": rules.rejected_description}))
    return await respond(face, services, request)
