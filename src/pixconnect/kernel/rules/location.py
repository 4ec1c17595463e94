"""A location: the address in a dynamic QR code. It outlives its charge, and may get another one.

::

    FREE ──bind (a charge of the same kind)──► BOUND ──unbind, or its charge takes another──► FREE
"""

import re
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules.charge import Charge
from pixconnect.platform.base import errors

LocationKind = Literal["cob", "cobv"]  # paid at once, or with a due date; it never changes
AT_ONCE: Final[LocationKind] = "cob"
WITH_DUE_DATE: Final[LocationKind] = "cobv"
LocationStatus = Literal["COB_FREE", "COB_BOUND", "COBV_FREE", "COBV_BOUND"]

TOKEN_LENGTH: Final = 22
"""Characters of ``[a-zA-Z0-9]``: 130 random bits. The txid of a charge of the contract is longer."""
_PATH: Final = re.compile(r"(?:(cobv)/)?([a-zA-Z0-9]{22,35})")
_BOUND: Final = dict[LocationKind, LocationStatus]((("cob", "COB_BOUND"), ("cobv", "COBV_BOUND")))
_FREE: Final = dict[LocationKind, LocationStatus]((("cob", "COB_FREE"), ("cobv", "COBV_FREE")))


class Location(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    token: str  # the end of its address
    status: LocationStatus
    charge_id: int | None
    created_at: datetime

    @property
    def kind(self) -> LocationKind:
        return "cob" if self.status.startswith("COB_") else "cobv"

    @property
    def path(self) -> str:
        """After the prefix that all addresses have."""
        return self.token if self.kind == "cob" else f"cobv/{self.token}"


def location_kind_of(charge: Charge) -> LocationKind:
    """The kind of the locations that may lead to a charge."""
    return AT_ONCE if charge.due_on is None else WITH_DUE_DATE


def open_location(
    location_id: int, holder_id: int, token: str, kind: LocationKind, charge_id: int | None, now: datetime
) -> Location:
    return Location(
        id=location_id,
        holder_id=holder_id,
        token=token,
        status=(_FREE if charge_id is None else _BOUND)[kind],
        charge_id=charge_id,
        created_at=now,
    )


def bind_location(location: Location, charge_id: int) -> Location:
    errors.ensure(location.charge_id is None, "a location that is in use")
    return msgspec.structs.replace(location, status=_BOUND[location.kind], charge_id=charge_id)


def free_location(location: Location) -> Location:
    errors.ensure(location.charge_id is not None, "a location that nothing uses")
    return msgspec.structs.replace(location, status=_FREE[location.kind], charge_id=None)


def list_statuses(kind: LocationKind | None, *, is_bound: bool | None) -> list[LocationStatus]:
    """The statuses of a kind, or of both, that are bound or not."""
    wanted = [by_kind for by_kind, bound in ((_BOUND, True), (_FREE, False)) if is_bound in {None, bound}]
    return [status for by_kind in wanted for name, status in by_kind.items() if kind in {None, name}]


def parse_path(path: str) -> tuple[LocationKind, str] | None:
    """The kind and token of a location's address, without the common prefix; ``None`` for any other address."""
    found = _PATH.fullmatch(path)
    return None if found is None else ("cob" if found[1] is None else "cobv", found[2])


class LocationUnreachable(Exception):  # noqa: N818  it is not our error
    """No address, no connection, no answer in time, or an error of the remote server: a retry may succeed."""


class OutsideCharge(Struct, frozen=True, kw_only=True):
    """A charge of another institution, its signature verified."""

    txid: str
    key: str
    amount_cents: int | None  # ``None`` takes any amount
    # Only ``ATIVA`` can be paid.
    status: Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]
    expires_at: datetime | None
    created_at: datetime | None = None  # ``None`` if absent
    has_due_date: bool = False
    revision: int = 0
    question: str | None = None


class Locations(Protocol):
    """Reads locations under the address rules of webhooks, within 5 s to connect, 10 s in all and 64 KiB."""

    async def read(self, location: str) -> OutsideCharge:
        """Fetch and verify the payload of a location (host and path, without a scheme).

        Raises:
            InvalidQrCode: A forbidden address, an answer of 4xx, or a payload whose form or signature is wrong.
            LocationUnreachable: It could not be fetched.
        """
        ...
