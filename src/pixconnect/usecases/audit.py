"""The audit: every operator's use case records here what it changes, in the transaction that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from pixconnect.foundation.pool import Connection
from pixconnect.store import audit as audit_store
from pixconnect.store.audit import AuditEntry
from pixconnect.usecases.lone_write import write_alone
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
    """Record what the operator changes; ``before`` and ``after`` must not contain secrets.

    Args:
        verb: ``holder set``, as on the command line.
        subject: ``holder 2``, what is changed.
    """
    await audit_store.append(connection, context.operator, verb, subject, _encode(before), _encode(after))


async def note(context: OperatorContext, verb: str, subject: str, *, after: State | None = None) -> None:
    """Record what is about to be done by a use case that records nothing itself, because callers of the API do it too."""
    async with write_alone(context.pool) as connection:
        await record(context, connection, verb, subject, after=after)


async def list_entries(
    context: OperatorContext,
    *,
    before_id: int | None = None,
    subjects: Sequence[str] | None = None,
    count_max: int = 50,
) -> list[AuditEntry]:
    """Entries before one of them, newest first; all, or those about these subjects."""
    async with context.pool.acquire() as connection:
        return await audit_store.list_before(connection, before_id, subjects, count_max)


async def list_newest(context: OperatorContext, count_max: int) -> list[AuditEntry]:
    """The last entries, newest first."""
    async with context.pool.acquire() as connection:
        return await audit_store.list_newest(connection, count_max)


def _encode(state: State | None) -> str | None:
    return None if state is None else msgspec.json.encode(state).decode()
