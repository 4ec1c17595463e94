"""The addresses that institutions call: the answer is always the same, and empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.doors.api.operation import Anything, Nothing, Parameter, Reader, Reply, Request, Services
from pixconnect.doors.api.routing import OPEN_END
from pixconnect.features.institutions.rules.sweep import PATH
from pixconnect.features.institutions.service.webhook import Callbacks

CALLBACK_PATH: Final = f"{PATH}{{name}}/{{secret}}{OPEN_END}"
_RUNG: Final = Reply(status=200)


class CallbackAddress(Struct, frozen=True, kw_only=True):
    name: str
    secret: str


def _read_alone(_: str) -> CallbackAddress:
    raise NotImplementedError("its reader reads the path")


ADDRESS: Final = Parameter[CallbackAddress](name="name", read=_read_alone, schema={}, description="")


def _read_path(raw: Sequence[bytes]) -> CallbackAddress:
    # Not decoded strictly: octets that are no text match no name and no secret.
    name, secret = (part.decode("utf-8", "replace") for part in raw[:2])
    return CallbackAddress(name=name, secret=secret)


class CallbackBody(Struct, frozen=True, kw_only=True):
    """Any body."""

    content: bytes


READER: Final = Reader(path=_read_path, query=lambda _: Anything(), body=lambda body, _: CallbackBody(content=body))


async def take_callback(services: Services, request: Request[CallbackAddress, Anything, CallbackBody]) -> Reply:
    """Read an account now, because its institution reports incoming money."""
    where = request.parameter
    await services.of_features[Callbacks].take(
        where.name, where.secret, request.body.content, has_certificate=request.certificate is not None
    )
    return _RUNG


async def try_callback(services: Services, request: Request[CallbackAddress, Anything, Nothing]) -> Reply:
    """Answer an institution that tries the address."""
    return _RUNG
