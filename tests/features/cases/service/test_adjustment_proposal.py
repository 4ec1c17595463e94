"""Another login of the database confirms in live mode, and no account of the console that it made for itself counts as one."""

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.case import read_case
from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.features.identity.service.console_session import find_session, remove_operator, reset_operator
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from support.account_shop import Shop, open_shop
from support.console import InProcess, add_and_sign_in, open_console
from support.fake_institution import FakeInstitution
from support.operators import as_operator, execute
from support.postgres import Addresses, make_live
from support.service import open_service


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        yield await open_shop(live, FakeInstitution(live.clock))


@pytest.fixture
async def console(shop: Shop) -> AsyncIterator[InProcess]:
    async with open_console(shop.live) as opened:
        yield opened


async def propose(shop: Shop, operator: Operator) -> Proposal:
    (row,) = await shop.live.fetch(
        "insert into kept_case (kind, institution_id, holder_id, name, amount_cents, facts, since)"
        f" values ('day', {shop.account.id}, {shop.house.holder_id}, '2026-07-01', -300, 'a difference', now()) returning id"
    )
    return await propose_adjustment(operator, WantedAdjustment(case_id=row["id"], kind="bank_error"))


async def confirm(shop: Shop, operator: str, proposal: Proposal) -> None:
    await confirm_proposal(as_operator(shop.live.context, operator), shop.context, proposal.code)


async def is_waiting(shop: Shop, proposal: Proposal) -> bool:
    return proposal in await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id)


async def test_one_login_proposes_and_another_confirms_whatever_names_stand_there(shop: Shop) -> None:
    proposed = await propose(shop, as_operator(shop.live.context, "ana"))
    with pytest.raises(errors.Forbidden, match="proposed by the database login pixconnect_login, which confirms"):
        await confirm(shop, "leo", proposed)
    assert await is_waiting(shop, proposed)
    await confirm(shop, "bia", proposed)


@pytest.mark.parametrize(("operator", "is_refused"), [("leo", True), ("bia", False)])
async def test_the_schema_itself_refuses_the_login_that_proposed(shop: Shop, operator: str, is_refused: bool) -> None:
    await propose(shop, as_operator(shop.live.context, "ana"))
    statement = "update proposal set confirmed_by = 'bia', done_at = proposed_at + interval '1 day'"
    async with as_operator(shop.live.context, operator).pool.acquire() as connection:
        if is_refused:
            with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="which confirms"):
                await connection.execute(statement)
        else:
            await connection.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("update proposal set proposed_login = 'ana_ops'")


async def test_a_lapsed_proposal_changes_nothing(shop: Shop) -> None:
    proposed = await propose(shop, as_operator(shop.live.context, "ana"))
    case_id = int(proposed.contents["case_id"])
    assert (await read_case(shop.live.context, case_id)).waiting == proposed
    shop.live.clock.advance(days=30)
    assert (await read_case(shop.live.context, case_id)).waiting is None
    with pytest.raises(errors.BadRequest, match="lapsed"):
        await confirm(shop, "bia", proposed)
    with pytest.raises(asyncpg.CheckViolationError, match="done_in_time"):
        await shop.live.execute_as_owner("update proposal set confirmed_by = 'bia', done_at = proposed_at + interval '30 days'")
    assert await is_waiting(shop, proposed)


async def test_what_is_done_stays_done(shop: Shop) -> None:
    await confirm(shop, "bia", await propose(shop, as_operator(shop.live.context, "ana")))
    for statement in ("update proposal set confirmed_by = 'eva'", "delete from proposal"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="was done, and stays so"):
            await execute(shop.live.context, statement)


async def propose_in_console(shop: Shop, console: InProcess, made_by: str) -> Proposal:
    """Propose by an account of the console that an operator has made."""
    session = await add_and_sign_in(as_operator(shop.live.context, made_by), console.parts, "operator", "carla")
    return await propose(shop, console.operator.acting_as(session.visitor.audit_name))


async def test_an_account_of_the_console_counts_as_the_login_that_made_it(shop: Shop, console: InProcess) -> None:
    proposed = await propose_in_console(shop, console, made_by="bia")
    with pytest.raises(errors.Forbidden, match="console carla has its password or recovery codes from the database login"):
        await confirm(shop, "bia", proposed)
    async with as_operator(shop.live.context, "bia").pool.acquire() as connection:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="console carla has its password"):
            await connection.execute("update proposal set confirmed_by = 'bia', done_at = proposed_at + interval '1 day'")
        for table, column in (("proposal", "account_login"), ("console_operator", "given_login")):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"update {table} set {column} = 'leo'")
    await confirm(shop, "leo", proposed)


async def test_an_account_counts_as_the_login_that_has_reset_it(shop: Shop, console: InProcess) -> None:
    await add_and_sign_in(as_operator(shop.live.context, "leo"), console.parts, "operator", "carla")
    await reset_operator(as_operator(shop.live.context, "bia"), "carla")
    # A used recovery code and a step of the second factor give nothing new.
    await shop.live.execute_as_owner("update console_operator set recovery_hashes = recovery_hashes[2:], totp_step = 1")
    # As `secrets reseal` by another login.
    await execute(shop.live.context, "update console_operator set totp_sealed = totp_sealed || 'x'")
    proposed = await propose(shop, console.operator.acting_as("console carla"))
    with pytest.raises(errors.Forbidden, match="console carla has its password"):
        await confirm(shop, "bia", proposed)
    await confirm(shop, "leo", proposed)


@pytest.mark.parametrize("act", [reset_operator, remove_operator])
async def test_a_later_reset_or_removal_makes_no_proposal_another_logins(
    shop: Shop, console: InProcess, act: Callable[[Operator, str], Awaitable[object]]
) -> None:
    proposed = await propose_in_console(shop, console, made_by="bia")
    await act(as_operator(shop.live.context, "leo"), "carla")
    with pytest.raises(errors.Forbidden, match="console carla has its password"):
        await confirm(shop, "bia", proposed)
    await confirm(shop, "leo", proposed)


async def test_a_proposal_of_no_account_of_the_console_is_confirmed_by_nobody(shop: Shop, console: InProcess) -> None:
    proposed = await propose(shop, console.operator.acting_as("console carla"))
    with pytest.raises(errors.Forbidden, match="console carla had no account of the console"):
        await confirm(shop, "bia", proposed)


async def test_the_console_accepts_no_session_that_another_login_has_begun(shop: Shop, console: InProcess) -> None:
    session = await add_and_sign_in(as_operator(shop.live.context, "leo"), console.parts, "operator", "carla")
    assert await find_session(console.operator, session.token, is_used=False) is not None
    forged = session.token[::-1]
    async with as_operator(shop.live.context, "bia").pool.acquire() as connection:
        await connection.execute(
            "insert into console_session (token_hash, kind, operator_name, created_at, seen_at, expires_at)"
            f" values (sha256('{forged}'), 'operator', 'carla', now(), now(), '2100-01-01')"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("update console_session set login = 'pixconnect_owner'")
    assert await find_session(console.operator, forged, is_used=False) is None


async def test_a_login_that_takes_no_role_has_the_consoles_rights(shop: Shop) -> None:
    proposed = await propose(shop, as_operator(shop.live.context, "ana"))
    await shop.live.execute_as_owner("update proposal set proposed_login = 'ana_ops', proposed_door = 'none'")
    with pytest.raises(errors.Forbidden, match="ana had no account of the console"):
        await confirm(shop, "bia", proposed)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="the console proposes"):
        await shop.live.execute_as_owner(
            "insert into proposal (institution_id, act, contents, proposed_by, proposed_at, confirmable_at)"
            f" values ({shop.account.id}, 'close', '{{}}', 'ana', now(), now())"
        )
