"""The audit: every operator's use case tells here what it changes, in the transaction that changes it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from pixconnect.foundation.pool import Connection
from pixconnect.store import audit as audit_store
from pixconnect.store.audit import AuditEntry
from pixconnect.usecases.operator import OperatorContext

State = Struct | Mapping[str, object]


async def record(
    context: OperatorContext,
    connection: Connection,
    verb: str,
    subject: str,
    *,
    before: State | None = None,
    after: State | None = None,
) -> None:
    """Keep that the operator has done something.

    Args:
        context: Of who does it.
        connection: With the transaction open that makes the change.
        verb: As on the command line: ``holder set``.
        subject: What was changed: ``holder 2``.
        before: What it was, without secrets.
        after: What it is now, without secrets.
    """
    await audit_store.append(connection, context.operator, verb, subject, _encode(before), _encode(after))


async def list_newest(context: OperatorContext, count_max: int) -> list[AuditEntry]:
    """What was done last, newest first."""
    async with context.pool.acquire() as connection:
        return await audit_store.list_newest(connection, count_max)


def _encode(state: State | None) -> str | None:
    return None if state is None else msgspec.json.encode(state).decode()
