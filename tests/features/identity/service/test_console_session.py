"""Signing in to the console: by password and second factor, by a client's credentials, by a link; and ends of sessions."""

from collections.abc import Awaitable
from typing import Any

import asyncpg
import pytest
from argon2 import PasswordHasher
from pyotp.totp import TOTP

from pixconnect.features.identity.service import access, console_session
from pixconnect.features.identity.service.console_session import IssuedOperator, NewSession, OperatorSignIn, SignIn
from pixconnect.features.identity.service.token_issuer import TokenRequest
from pixconnect.kernel.flows import audit, holder
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.access import FAILURES_MAX, SESSION_IDLE_MAX, SESSION_LENGTH_MAX, IssuedClient, Visitor
from pixconnect.platform.base import errors
from support import identity
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner
from support.service import FakeClock

_ADDRESS = "203.0.113.9"


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred guesses would cost as much as one."""
    monkeypatch.setattr(console_session, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def operator(context: Context) -> Operator:
    return as_operator(context)


@pytest.fixture
def door(operator: Operator) -> SignIn:
    return SignIn(operator)


@pytest.fixture
async def maria(operator: Operator) -> IssuedOperator:
    return await console_session.add_operator(operator, "maria", "operator")


@pytest.fixture
async def issued(context: Context, operator: Operator) -> IssuedClient:
    owner = await identity.make_holder(context)
    return await access.create_client(operator, owner.id, "shop", ["charge.read", "charge.write"])


def _asked(who: IssuedOperator, clock: FakeClock, **changes: Any) -> OperatorSignIn:
    code = TOTP(who.totp_secret).at(clock.real_now())
    fields: dict[str, Any] = {"name": who.operator.name, "password": who.password, "code": code, "address": _ADDRESS}
    return OperatorSignIn(**(fields | changes))


def _by_client(issued: IssuedClient, **changes: Any) -> TokenRequest:
    fields: dict[str, Any] = {"client_id": issued.client.client_id, "client_secret": issued.client_secret}
    return TokenRequest(**({"address": _ADDRESS} | fields | changes))


async def _refusal(attempt: Awaitable[NewSession]) -> errors.Refusal:
    with pytest.raises(errors.Refusal) as refused:
        await attempt
    return refused.value


async def test_an_operator_signs_in_by_password_and_second_factor(
    operator: Operator, door: SignIn, maria: IssuedOperator, clock: FakeClock
) -> None:
    begun = await door.operator(_asked(maria, clock))
    visitor = begun.visitor
    assert await console_session.find_session(operator, begun.token) == visitor
    assert (visitor.kind, visitor.name, visitor.role, visitor.holder_id) == ("operator", "maria", "operator", None)
    assert visitor.viewer(7).holder_id == 7
    newest, *_ = await audit.list_entries(operator)
    assert (newest.operator, newest.verb) == ("console maria", "console sign-in")


async def test_a_code_is_good_once_and_so_is_a_recovery_code(door: SignIn, maria: IssuedOperator, clock: FakeClock) -> None:
    asked = _asked(maria, clock)
    await door.operator(asked)
    assert isinstance(await _refusal(door.operator(asked)), errors.Unauthorized)
    by_recovery = _asked(maria, clock, code=f" {maria.recovery_codes[3].replace('-', '')}")
    await door.operator(by_recovery)
    assert isinstance(await _refusal(door.operator(by_recovery)), errors.Unauthorized)
    clock.advance(seconds=30)
    await door.operator(_asked(maria, clock))


async def test_whatever_is_wrong_is_answered_alike(door: SignIn, maria: IssuedOperator, clock: FakeClock) -> None:
    wrong: list[dict[str, Any]] = [
        {"name": "joana"}, {"name": "'; drop table holder; --\0"}, {"password": maria.password[:-1]},
        {"password": "\ud800" * 2000}, {"code": ""}, {"code": "000000"}, {"code": "x" * 5000},
    ]  # fmt: skip
    refusals = [await _refusal(door.operator(_asked(maria, clock, **changes))) for changes in wrong]
    assert {(type(refusal), refusal.message) for refusal in refusals} == {
        (errors.Unauthorized, "name, password or code: one of them is wrong")
    }


async def test_guesses_from_many_addresses_keep_no_operator_out(door: SignIn, maria: IssuedOperator, clock: FakeClock) -> None:
    for number in range(10 * FAILURES_MAX):
        guess = _asked(maria, clock, password="guess", address=f"198.51.100.{number // FAILURES_MAX}")
        assert isinstance(await _refusal(door.operator(guess)), errors.Unauthorized)
    # An address that guesses waits, with the right password too.
    limited = await _refusal(door.operator(_asked(maria, clock, address="198.51.100.0")))
    assert isinstance(limited, errors.RateLimited)
    assert 0 < limited.retry_after_s <= 60
    await door.operator(_asked(maria, clock, address="192.0.2.1"))


async def test_who_has_the_password_guesses_few_codes_from_all_addresses_and_is_not_told_that_it_is_right(
    context: Context, database: Addresses, door: SignIn, maria: IssuedOperator, clock: FakeClock
) -> None:
    async def guess(number: int) -> None:
        await _refusal(door.operator(_asked(maria, clock, code="000000", address=f"198.51.100.{number}")))

    await guess(0)
    clock.advance(seconds=86_400)
    for number in range(1, 10):
        await guess(number)
        clock.advance(seconds=7_200)
    # Nine within a day do not keep her out.
    await door.operator(_asked(maria, clock))
    await guess(10)
    clock.advance(seconds=86_400)
    await execute_as_owner(database, "update pixconnect.token_failure set failed_at = failed_at - interval '61 s'")
    for code in ({}, {"code": maria.recovery_codes[0]}):
        refusal = await _refusal(door.operator(_asked(maria, clock, **code, address="192.0.2.1")))
        assert (type(refusal), refusal.message) == (errors.Unauthorized, "name, password or code: one of them is wrong")
    operator = as_operator(context)
    assert [each.is_locked for each in await console_session.list_operators(operator)] == [True]
    await console_session.unlock_operator(operator, "maria")
    # A code that was refused meanwhile is not used up.
    await door.operator(_asked(maria, clock))
    await door.operator(_asked(maria, clock, code=maria.recovery_codes[0]))


async def test_an_address_that_guesses_is_refused_by_every_door(
    context: Context, door: SignIn, maria: IssuedOperator, issued: IssuedClient, clock: FakeClock
) -> None:
    for number in range(FAILURES_MAX):
        await _refusal(door.operator(_asked(maria, clock, name=f"guess{number}")))
    assert isinstance(await _refusal(door.client(_by_client(issued))), errors.RateLimited)
    assert isinstance(await _refusal(door.operator(_asked(maria, clock))), errors.RateLimited)


async def test_a_reset_ends_sessions_and_old_secrets_and_keeps_the_role(
    operator: Operator, door: SignIn, maria: IssuedOperator, clock: FakeClock
) -> None:
    begun = await door.operator(_asked(maria, clock))
    anew = await console_session.reset_operator(operator, "maria")
    assert anew.operator.role == "operator"
    assert await console_session.find_session(operator, begun.token) is None
    clock.advance(seconds=60)
    for changes in ({}, {"code": maria.recovery_codes[0]}):
        assert isinstance(await _refusal(door.operator(_asked(maria, clock, **changes))), errors.Unauthorized)
    again = await door.operator(_asked(anew, clock))
    await console_session.remove_operator(operator, "maria")
    assert await console_session.find_session(operator, again.token) is None
    assert await console_session.list_operators(operator) == []


async def test_an_open_page_ends_too(operator: Operator, door: SignIn, maria: IssuedOperator, clock: FakeClock) -> None:
    begun = await door.operator(_asked(maria, clock))
    clock.advance(minutes=29)
    assert await console_session.find_session(operator, begun.token, is_used=False) is not None
    clock.advance(minutes=2)
    assert await console_session.find_session(operator, begun.token) is None


async def test_a_name_is_taken_once_and_has_a_form(operator: Operator, maria: IssuedOperator) -> None:
    for name in (maria.operator.name, "", "-x", "Maria", "a b", "x" * 64):
        with pytest.raises(errors.BadRequest, match=r"^name: "):
            await console_session.add_operator(operator, name, "reader")
    with pytest.raises(errors.NotFound):
        await console_session.reset_operator(operator, "nobody")


async def test_a_holder_enters_with_its_clients_scopes(operator: Operator, door: SignIn, issued: IssuedClient) -> None:
    visitor = (await door.client(_by_client(issued))).visitor
    assert (visitor.kind, visitor.holder_id, visitor.scopes) == (
        "holder",
        issued.client.holder_id,
        {"charge.read", "charge.write"},
    )
    # Another holder can be chosen any number of times.
    assert visitor.viewer(999).holder_id == visitor.caller(999).holder_id == issued.client.holder_id
    wrong = await _refusal(door.client(_by_client(issued, client_secret="wrong")))
    assert isinstance(wrong, errors.Unauthorized)


@pytest.mark.parametrize("what", ["rotate", "disable", "delete", "revoke", "holder"])
async def test_tokens_and_sessions_end_alike(operator: Operator, door: SignIn, issued: IssuedClient, what: str) -> None:
    begun = await door.client(_by_client(issued))
    client_id = issued.client.client_id
    acts = {
        "rotate": lambda: access.rotate_client(operator, client_id),
        "disable": lambda: access.disable_client(operator, client_id),
        "delete": lambda: access.delete_client(operator, client_id),
        "revoke": lambda: access.revoke_tokens(operator, client_id),
        "holder": lambda: holder.set_holder(operator, issued.client.holder_id, HolderChanges(is_disabled=True)),
    }
    changed = await acts[what]()
    assert await console_session.find_session(operator, begun.token) is None
    # A new secret is valid at once, and so is its session.
    if isinstance(changed, IssuedClient):
        anew = await door.client(_by_client(changed))
        assert await console_session.find_session(operator, anew.token) is not None


async def test_a_session_ends_in_time(operator: Operator, door: SignIn, issued: IssuedClient, clock: FakeClock) -> None:
    begun = await door.client(_by_client(issued))
    ends_at = clock.real + SESSION_LENGTH_MAX
    while clock.real + SESSION_IDLE_MAX * 0.9 < ends_at:
        clock.real += SESSION_IDLE_MAX * 0.9
        assert await console_session.find_session(operator, begun.token) is not None
    clock.real = ends_at
    assert await console_session.find_session(operator, begun.token) is None
    idle = await door.client(_by_client(issued))
    clock.real += SESSION_IDLE_MAX
    assert await console_session.find_session(operator, idle.token) is None


async def test_a_link_lets_in_once_within_its_time_and_never_in_live(
    context: Context, database: Addresses, operator: Operator, door: SignIn, clock: FakeClock
) -> None:
    connection = await asyncpg.connect(database.owner_url)
    await connection.execute("insert into pixconnect.installation (mode) values ('sandbox')")
    visitor = (await door.link(token := await console_session.make_link(operator))).visitor
    assert (visitor.kind, visitor.role, visitor.holder_id) == ("sandbox", "operator", None)
    late = await console_session.make_link(operator)
    clock.advance(hours=12)
    for bad in (token, late, "", "\ud800"):
        assert isinstance(await _refusal(door.link(bad)), errors.Unauthorized)
    await connection.execute("alter table pixconnect.installation disable trigger all")
    await connection.execute("update pixconnect.installation set mode = 'live'")
    await connection.close()
    # The database itself refuses, in every mode of the process.
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await console_session.make_link(operator)


async def test_sessions_are_listed_and_ended_by_whom_they_concern(
    context: Context, operator: Operator, door: SignIn, maria: IssuedOperator, issued: IssuedClient, clock: FakeClock
) -> None:
    other_owner = await identity.make_holder(context, account_number="1002", tax_id="11144477735")
    other_client = await access.create_client(operator, other_owner.id, "other", ["charge.read"])
    own = (await door.client(_by_client(issued))).visitor
    other = (await door.client(_by_client(other_client))).visitor
    operators = (await door.operator(_asked(maria, clock))).visitor

    async def listed(visitor: Visitor) -> set[int]:
        return {session.id for session in await console_session.list_sessions(operator, visitor)}

    assert await listed(own) == {own.session_id}
    assert await listed(operators) == {own.session_id, other.session_id, operators.session_id}
    for session_id in (other.session_id, operators.session_id, 404):
        with pytest.raises(errors.NotFound):
            await console_session.revoke_session(operator, own, session_id)
    await console_session.revoke_session(operator, operators, own.session_id)
    assert await listed(operators) == {other.session_id, operators.session_id}


async def test_a_reader_changes_nothing_and_ends_the_own_session_alone(
    operator: Operator, door: SignIn, maria: IssuedOperator, clock: FakeClock
) -> None:
    joana = await console_session.add_operator(operator, "joana", "reader")
    reader, other = (await door.operator(_asked(joana, clock))).visitor, await door.operator(_asked(maria, clock))
    with pytest.raises(errors.Forbidden):
        reader.caller(1)
    with pytest.raises(errors.Forbidden):
        await console_session.revoke_session(operator, reader, other.visitor.session_id)
    await console_session.revoke_session(operator, reader, reader.session_id)
    with pytest.raises(errors.BadRequest):
        other.visitor.caller()


async def test_no_secret_is_kept_as_it_is(
    database: Addresses, operator: Operator, door: SignIn, maria: IssuedOperator, clock: FakeClock
) -> None:
    connection = await asyncpg.connect(database.owner_url)
    await connection.execute("insert into pixconnect.installation (mode) values ('sandbox')")
    begun, link = await door.operator(_asked(maria, clock)), await console_session.make_link(operator)
    tables = ("console_operator", "console_session", "console_link", "audit")
    kept = [str(await connection.fetch(f"select * from pixconnect.{table}")) for table in tables]
    await connection.close()
    for secret in (maria.password, maria.totp_secret, *maria.recovery_codes, begun.token, link):
        assert not any(secret in text or secret.encode().hex() in text for text in kept)
    assert "$argon2id$" in kept[0]
