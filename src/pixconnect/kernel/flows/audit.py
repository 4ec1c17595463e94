"""The audit trail: operators' use cases record each change in the transaction that makes it.

Proposals of all kinds are stored, replaced and confirmed here, in the transactions of the use cases that propose and
execute them.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.rules.proposal import Proposal, check_confirmation
from pixconnect.kernel.tables import audit as audit_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.tables.audit import AuditEntry
from pixconnect.platform.base import errors
from pixconnect.platform.outgoing_text import cut_text
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

    def of(self, subject: str) -> "Act":
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
    context: Operator,
    *,
    before_id: int | None = None,
    subjects: Sequence[str] | None = None,
    by: str | None = None,
    count_max: int = 50,
) -> list[AuditEntry]:
    """List entries before a cursor, newest first: all, or those about these subjects or by an operator."""
    return await audit_store.list_before(context.pool, before_id, subjects, count_max, by)


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


CONFIRM: Final = "proposal confirm"  # the audit verb of each confirmation


def make_proposal(
    context: Operator,
    act: str,
    contents: Mapping[str, str | int],
    *,
    institution_id: int | None = None,
    holder_id: int | None = None,
    rest: timedelta = timedelta(0),
    acts_after: timedelta | None = None,
) -> Proposal:
    """Make an operator's proposal.

    Args:
        rest: How long it cannot be confirmed.
        acts_after: After this time it takes effect without a second operator; by default never.
    """
    now = context.clock.real_now()
    return Proposal(
        act=act,
        institution_id=institution_id,
        holder_id=holder_id,
        contents=contents,
        proposed_by=context.operator,
        proposed_at=now,
        confirmable_at=now + rest,
        acts_at=None if acts_after is None else now + acts_after,
    )


async def propose(context: Operator, connection: Connection, verb: str, subject: str, proposal: Proposal) -> Proposal:
    """Store and audit a proposal, replacing a pending one of the same act; the caller has locked the account or holder."""
    await proposal_store.replace(connection, proposal)
    await record(context, connection, verb, subject, after=proposal)
    return proposal


async def check_waiting(context: Operator, connection: Connection, proposal: Proposal) -> None:
    """Check that a proposal may be confirmed now; the caller has locked its account or holder.

    Raises:
        Forbidden: It is the operator's own proposal.
        BadRequest: It is too early, or it has lapsed.
        NotFound: It was withdrawn, replaced or confirmed meanwhile.
    """
    check_confirmation(proposal, context.operator, context.clock.real_now())
    waiting = await proposal_store.list_waiting(
        connection, institution_id=proposal.institution_id, holder_id=proposal.holder_id
    )
    if proposal not in waiting:
        raise errors.NotFound(f"code: {proposal.code} does not wait any more: read `pixconnect proposal list`")


async def confirm(context: Operator, connection: Connection, proposal: Proposal) -> None:
    """Confirm a proposal in the transaction that executes it, after ``check_waiting``."""
    await check_waiting(context, connection, proposal)
    await proposal_store.confirm(connection, proposal, context.operator, context.clock.real_now())
