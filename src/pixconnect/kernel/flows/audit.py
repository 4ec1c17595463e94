"""The audit trail: operators' use cases record each change in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.rules.short_text import cut_text
from pixconnect.kernel.tables import audit as audit_store
from pixconnect.kernel.tables.audit import AuditEntry
from pixconnect.platform.pool import Connection

State = Struct | Mapping[str, object]


async def record(
    context: Operator,
    connection: Connection,
    verb: str,
    subject: str,
    *,
    before: State | None = None,
    after: State | None = None,
) -> None:
    """Record an operator's change (``holder set`` of ``holder 2``); neither state may contain secrets."""
    await _append(connection, context.operator, verb, subject, before, after)


class Act(Struct, frozen=True, kw_only=True):
    """An act in the console through a use case that the API has too.

    The use case records it in its own transaction, over the console role's connections: the service's role may not.
    """

    operator: str
    verb: str
    subject: str
    after: Mapping[str, object]

    def of(self, subject: str) -> Act:
        """Return the act with the resource that it created."""
        return structs.replace(self, subject=subject)


async def record_act(connection: Connection, act: Act | None) -> None:
    """Record the act with its change. Callers of the API pass no act, and leave no row."""
    if act is not None:
        await _append(connection, act.operator, act.verb, act.subject, None, act.after)


async def note(context: Operator, act: Act) -> None:
    """Record an act of the sandbox, which happens outside of our transactions."""
    async with write_alone(context.pool) as connection:
        await record_act(connection, act)


async def list_entries(
    context: Operator, *, before_id: int | None = None, subjects: Sequence[str] | None = None, count_max: int = 50
) -> list[AuditEntry]:
    """List entries before a cursor, newest first: all, or those about these subjects."""
    async with context.pool.acquire() as connection:
        return await audit_store.list_before(connection, before_id, subjects, count_max)


async def list_newest(context: Operator, count_max: int) -> list[AuditEntry]:
    async with context.pool.acquire() as connection:
        return await audit_store.list_newest(connection, count_max)


async def _append(
    connection: Connection, operator: str, verb: str, subject: str, before: State | None, after: State | None
) -> None:
    await audit_store.append(connection, operator, verb, cut_text(subject), _encode(before), _encode(after))


def _encode(state: State | None) -> str | None:
    return None if state is None else msgspec.json.encode(_cut(msgspec.to_builtins(state))).decode()


def _cut(value: object) -> object:
    """Cut texts to the size that a row may keep: their senders choose the length, and audit rows are never deleted."""
    if isinstance(value, str):
        # PostgreSQL stores no NUL, not even in JSON.
        return cut_text(value.replace("\0", "\ufffd"))
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_cut(each) for each in cast("Sequence[object]", value)]
    return value
