"""Higher limits of a holder: they wait for a day or for a second operator, and lower ones act at once."""

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.holder import HolderChanges, SetLimits
from pixconnect.kernel.rules.limit import LIMIT_COLUMNS, Limits
from pixconnect.kernel.rules.limit import read_limits as read_contents
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from support import identity
from support.identity import make_holder
from support.operators import as_operator, execute
from support.postgres import Addresses, execute_as_owner, make_live

ANA, BIA = "ana@desk", "bia@desk"


@pytest.fixture
async def live(database: Addresses) -> AsyncIterator[Context]:
    await make_live(database)
    async with identity.open_context(database, SystemClock(), is_sandbox=False) as opened:
        yield opened


async def make_limited(context: Context) -> int:
    made = await make_holder(context, transfer_limit_cents=1000, day_limit_cents=5000, night_limit_cents=2000)
    return made.id


async def change(context: Context, holder_id: int, operator: str = ANA, **changes: int | None) -> Limits:
    changed = await holder_usecases.set_holder(as_operator(context, operator), holder_id, HolderChanges(**changes))  # pyright: ignore[reportArgumentType]
    return changed.limits


async def let_wait(database: Addresses) -> None:
    """Let what waits have waited for a day and a second."""
    waited = (f"{name} = {name} - interval '86401 s'" for name in ("proposed_at", "confirmable_at", "acts_at"))
    await execute_as_owner(database, f"update proposal set {', '.join(waited)}")


async def read_limits(context: Context, holder_id: int) -> Limits:
    return (await holder_usecases.read_holder(as_operator(context), holder_id)).limits


async def test_what_is_lower_acts_at_once_and_what_is_higher_waits_for_a_day(live: Context, database: Addresses) -> None:
    holder_id = await make_limited(live)
    limits = await change(live, holder_id, transfer_limit_cents=2000, day_limit_cents=4000, night_begins_h=22)
    assert limits == Limits(transfer_cents=1000, day_cents=4000, night_cents=2000) == await read_limits(live, holder_id)
    wanted = (await holder_usecases.find_waiting(live, holder_id)).get("limits")
    assert wanted is not None
    higher = Limits(transfer_cents=2000, day_cents=4000, night_cents=2000, night_begins_late=True)
    assert (read_contents(wanted.contents), wanted.proposed_by) == (higher, ANA)
    assert wanted.acts_at is not None
    assert (wanted.acts_at - wanted.proposed_at).total_seconds() == 86_400

    await holder_usecases.act_on_due_limits(live)
    assert await read_limits(live, holder_id) == limits
    await let_wait(database)
    await holder_usecases.act_on_due_limits(live)
    await holder_usecases.act_on_due_limits(live)
    assert await read_limits(live, holder_id) == higher
    assert (await holder_usecases.find_waiting(live, holder_id)).get("limits") is None
    (entry,) = await audit.list_entries(as_operator(live), count_max=1)
    assert (entry.operator, entry.verb) == (ANA, "holder set")


async def read_code(context: Context, holder_id: int) -> str:
    wanted = (await holder_usecases.find_waiting(context, holder_id)).get("limits")
    assert wanted is not None
    return wanted.code


async def test_who_confirms_gets_what_they_have_read_and_nothing_that_took_its_place(live: Context) -> None:
    holder_id = await make_limited(live)
    await change(live, holder_id, day_limit_cents=6000)
    read = await read_code(live, holder_id)
    await change(live, holder_id, day_limit_cents=9_000_000)
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm_proposal(as_operator(live, BIA), live, read)
    assert (await read_limits(live, holder_id)).day_cents == 5000


async def test_of_two_operators_at_once_one_confirms_or_the_other_has_replaced_it(live: Context) -> None:
    holder_id = await make_limited(live)
    for tried in range(6):
        await change(live, holder_id, day_limit_cents=5000)
        await change(live, holder_id, day_limit_cents=6000 + tried)
        read = await read_code(live, holder_id)
        outcomes = await asyncio.gather(
            confirm_proposal(as_operator(live, BIA), live, read),
            confirm_proposal(as_operator(live, "eva@desk"), live, read),
            change(live, holder_id, day_limit_cents=9_000_000),
            holder_usecases.act_on_due_limits(live),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Proposal) for each in outcomes) <= 1
        # No operator read the nine million, so they never apply.
        assert (await read_limits(live, holder_id)).day_cents in (5000, 6000 + tried)
        assert not [each for each in outcomes if isinstance(each, asyncpg.PostgresError)]


async def test_another_operator_lets_it_act_at_once_and_whoever_wanted_it_does_not(live: Context) -> None:
    holder_id = await make_limited(live)
    await change(live, holder_id, day_limit_cents=None)
    for operator in (ANA, "console Ana", "ana@elsewhere"):
        with pytest.raises(errors.Forbidden, match="another operator"):
            await confirm_proposal(as_operator(live, operator), live, await read_code(live, holder_id))
    await confirm_proposal(as_operator(live, BIA), live, await read_code(live, holder_id))
    assert (await read_limits(live, holder_id)).day_cents is None
    (entry,) = await audit.list_entries(as_operator(live), count_max=1)
    assert (entry.operator, entry.verb, entry.subject) == (BIA, "proposal confirm", f"holder {holder_id}")
    with pytest.raises(errors.NotFound, match="no proposal with the code any waits"):
        await confirm_proposal(as_operator(live, BIA), live, "any")


async def test_a_change_of_limits_forgets_what_waited_and_another_change_does_not(live: Context) -> None:
    holder_id = await make_limited(live)
    await change(live, holder_id, transfer_limit_cents=9000)
    await holder_usecases.set_holder(as_operator(live), holder_id, HolderChanges(may_lend=True))
    assert (await holder_usecases.find_waiting(live, holder_id)).get("limits") is not None
    await change(live, holder_id, BIA, transfer_limit_cents=1000)
    assert (await holder_usecases.find_waiting(live, holder_id)).get("limits") is None


async def test_in_the_sandbox_all_acts_at_once(database: Addresses) -> None:
    async with identity.open_context(database, SystemClock()) as context:
        holder_id = await make_limited(context)
        assert (await change(context, holder_id, day_limit_cents=None)).day_cents is None
        assert (await holder_usecases.find_waiting(context, holder_id)).get("limits") is None


async def test_a_night_begins_at_one_of_two_hours(live: Context) -> None:
    holder_id = await make_limited(live)
    for hour in (-1, 0, 6, 21, 23):
        with pytest.raises(errors.BadRequest, match="night_begins: must be 20 or 22"):
            await change(live, holder_id, night_begins_h=hour)
    assert (await change(live, holder_id, night_begins_h=20)).night_begins_late is False


async def test_the_service_itself_changes_no_limit(live: Context) -> None:
    holder_id = await make_limited(live)
    await change(live, holder_id, day_limit_cents=None)
    for statement in (
        "update holder set day_limit_cents = null",
        "insert into proposal (holder_id, act) values (1, 'limits')",
        "update proposal set done_at = now()",
        "delete from proposal",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await live.pool.execute(statement)


async def test_the_functions_of_the_schema_have_each_limit(live: Context, database: Addresses) -> None:
    await make_limited(live)
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        limits = json.loads(await connection.fetchval("select limits_of(holder) from holder limit 1"))
        acts = await connection.fetchval("select prosrc from pg_proc where proname = 'act_on_due_limits'")
    finally:
        await connection.close()
    assert limits.keys() == {*Limits.__struct_fields__}
    assert [column for column in LIMIT_COLUMNS if f" {column} = " not in acts] == []


@pytest.mark.parametrize(
    "statement",
    [
        *(f"update holder set {column} = {higher}" for column in SetLimits.__struct_fields__ for higher in ("null", 11)),
        "update holder set night_begins_late = true",
        "update proposal set done_at = acts_at",
        """
        insert into proposal (holder_id, act, contents, proposed_by, proposed_at, confirmable_at, acts_at)
            select id, 'limits', '{}', 'ana', now() - interval '2 days', now() - interval '2 days', now() - interval '1 day'
            from holder
        """,
    ],
)
async def test_one_operator_raises_no_limit_by_a_statement(live: Context, statement: str) -> None:
    holder_id = await make_limited(live)
    await change(live, holder_id, day_limit_cents=None)
    await execute(live, f"update holder set {', '.join(f'{column} = 10' for column in SetLimits.__struct_fields__)}")
    if "insert" in statement:
        await execute(live, "delete from proposal")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await execute(live, statement)
    assert (await read_limits(live, holder_id)).day_cents == 10


async def set_approvals(context: Context, holder_id: int, **changes: int | bool | None) -> tuple[int | None, bool]:
    changed = await holder_usecases.set_holder(as_operator(context, ANA), holder_id, HolderChanges(**changes))  # pyright: ignore[reportArgumentType]
    return changed.approve_above_cents, changed.approve_new_payees


async def test_fewer_approvals_wait_for_another_operator(live: Context) -> None:
    holder_id = await make_limited(live)
    assert await set_approvals(live, holder_id, approve_above_cents=500, approve_new_payees=True) == (500, True)
    assert await set_approvals(live, holder_id, approve_above_cents=400) == (400, True)
    assert await set_approvals(live, holder_id, approve_above_cents=None, approve_new_payees=False) == (400, True)
    await change(live, holder_id, day_limit_cents=9000)
    fewer = (await holder_usecases.find_waiting(live, holder_id))["approvals"]
    assert fewer.contents_text == "approve_above none, approve_new_payees false"
    with pytest.raises(errors.Forbidden, match="another operator"):
        await confirm_proposal(as_operator(live, ANA), live, fewer.code)
    await confirm_proposal(as_operator(live, BIA), live, fewer.code)
    holder = await holder_usecases.read_holder(as_operator(live), holder_id)
    assert (holder.approve_above_cents, holder.approve_new_payees) == (None, False)
    assert holder.limits.day_cents == 5000


async def test_a_change_of_approvals_discards_fewer_that_wait(live: Context) -> None:
    holder_id = await make_limited(live)
    await set_approvals(live, holder_id, approve_above_cents=500)
    await set_approvals(live, holder_id, approve_above_cents=900)
    assert await set_approvals(live, holder_id, approve_above_cents=300) == (300, False)
    assert not await holder_usecases.find_waiting(live, holder_id)


async def test_in_the_sandbox_fewer_approvals_act_at_once(database: Addresses) -> None:
    async with identity.open_context(database, SystemClock()) as context:
        holder_id = await make_limited(context)
        await set_approvals(context, holder_id, approve_above_cents=500)
        assert await set_approvals(context, holder_id, approve_above_cents=None) == (None, False)


@pytest.mark.parametrize("change", ["approve_above_cents = null", "approve_above_cents = 501", "approve_new_payees = false"])
async def test_one_operator_removes_no_approval_by_a_statement(live: Context, change: str) -> None:
    holder_id = await make_limited(live)
    await set_approvals(live, holder_id, approve_above_cents=500, approve_new_payees=True)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="need another operator"):
        await execute(live, f"update holder set {change}")
    await execute(live, "update holder set approve_above_cents = 499")
