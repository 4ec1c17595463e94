"""Token requests, and the limits on failed ones."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from pixconnect.features.identity.service import access, token_issuer
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import (
    JUDGED_TOGETHER_MAX,
    AddressLimited,
    ClientLimited,
    ScopeNotGranted,
    TokenIssuer,
    TokenRequest,
)
from pixconnect.features.identity.tables import access as access_store
from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import AccessToken, Client, IssuedClient
from pixconnect.platform.base import errors
from support import identity
from support.identity import token_request
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner
from support.service import STARTED_AT, FakeClock

IS_WAITING = """
    select exists (select from pg_locks join pg_database on oid = database where datname = current_database() and not granted)
"""


@pytest.fixture
async def issued(context: Context) -> IssuedClient:
    owner = await identity.make_holder(context)
    return await access.create_client(as_operator(context), owner.id, "shop", ["charge.write", "charge.read"])


async def attempt(context: Context, keyring: Keyring, request: TokenRequest) -> AccessToken | errors.Refusal:
    try:
        return await TokenIssuer(context, keyring).login(request)
    except errors.Refusal as refusal:
        return refusal


async def age_failures(database: Addresses, seconds: int) -> None:
    await execute_as_owner(database, f"update pixconnect.token_failure set failed_at = failed_at - interval '{seconds} s'")


async def test_a_token_has_scopes_asked_for_and_had(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    credentials = issued.client.client_id, issued.client_secret
    for wanted, given in (
        (None, ("charge.read", "charge.write")),
        (["charge.write", "charge.read", "charge.write"], ("charge.read", "charge.write")),
        (["charge.read"], ("charge.read",)),
        (["rec.write", "charge.read", "refund.write"], ("charge.read",)),
    ):
        token = await TokenIssuer(context, keyring).login(token_request(*credentials, scopes=wanted))
        assert token.scopes == given
        _, payload, _ = identity.split(token.access_token)
        assert json.loads(payload)["scope"] == " ".join(given)
    for refused in (["refund.write"], ["charge.delete", "rec.read"]):
        with pytest.raises(ScopeNotGranted, match="scope: this client has none"):
            await TokenIssuer(context, keyring).login(token_request(*credentials, scopes=refused))


async def test_a_token_can_be_verified_by_others(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    client = issued.client
    token = await TokenIssuer(context, keyring).login(token_request(client.client_id, issued.client_secret))
    header, payload, signature = identity.split(token.access_token)
    claims = json.loads(payload)
    document = keyring.public_key_document()
    assert header == {"alg": "ES256", "kid": document["kid"], "typ": "at+jwt"}
    assert identity.is_signed(token.access_token.rpartition(".")[0], signature, identity.public_key(document))
    assert claims.pop("jti")
    issued_at = int(STARTED_AT.timestamp())
    assert claims == {
        "iss": "http://127.0.0.1:8080", "aud": "pix-connect", "sub": client.client_id,
        "holder_id": str(client.holder_id), "scope": "charge.read charge.write", "iat": issued_at,
        "exp": issued_at + 300,
    }  # fmt: skip
    assert token.expires_in_s == 300


async def test_two_tokens_have_names_of_their_own(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    request = token_request(issued.client.client_id, issued.client_secret)
    tokens = [await TokenIssuer(context, keyring).login(request) for _ in range(2)]
    names = {json.loads(identity.split(token.access_token)[1])["jti"] for token in tokens}
    assert len(names) == 2


async def test_a_request_of_another_shape_is_told_and_not_counted(context: Context, keyring: Keyring) -> None:
    requests = [
        ("client_id", token_request(None, "s")),
        ("client_id", token_request("", "s")),
        ("client_secret", token_request("c", None)),
        ("client_secret", token_request("c", "")),
        ("grant_type", token_request("c", "s", grant_type=None)),
        ("grant_type", token_request("c", "s", grant_type="password")),
        ("grant_type", token_request("c", "s", grant_type="CLIENT_CREDENTIALS")),
    ]
    for field, request in requests * 2:
        with pytest.raises(errors.BadRequest, match=f"^{field}: "):
            await TokenIssuer(context, keyring).login(request)


async def test_an_unknown_client_and_a_wrong_secret_look_alike(
    context: Context, keyring: Keyring, issued: IssuedClient
) -> None:
    wrong = await attempt(context, keyring, token_request(issued.client.client_id, issued.client_secret[:-1]))
    assert isinstance(wrong, errors.Unauthorized)
    for client_id in ("unknown", "nul\0", "lone \ud800 surrogate", "x" * 5000, "\u00e9"):
        unknown = await attempt(context, keyring, token_request(client_id, "wrong \ud800\0"))
        assert isinstance(unknown, errors.Unauthorized)
        assert unknown.message == wrong.message


async def test_the_same_secret_is_stored_differently_under_another_key(
    database: Addresses, clock: FakeClock, keyring: Keyring, issued: IssuedClient
) -> None:
    async with identity.open_context(database, clock, secret_key=bytes(32)) as other:
        answer = await attempt(other, keyring, token_request(issued.client.client_id, issued.client_secret))
    assert isinstance(answer, errors.Unauthorized)


async def test_a_failing_address_is_refused_anyway(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    for number in range(10):
        answer = await attempt(context, keyring, token_request(f"unknown-{number}", "wrong"))
        assert isinstance(answer, errors.Unauthorized)
    right = token_request(issued.client.client_id, issued.client_secret)
    refused = await attempt(context, keyring, right)
    assert isinstance(refused, errors.RateLimited)
    assert 58 <= refused.retry_after_s <= 60
    elsewhere = token_request(issued.client.client_id, issued.client_secret, address="198.51.100.1")
    assert isinstance(await attempt(context, keyring, elsewhere), AccessToken)


async def test_a_client_id_that_failed_ten_times_is_refused_with_wrong_credentials_only(
    context: Context, keyring: Keyring, issued: IssuedClient
) -> None:
    client_id = issued.client.client_id
    for number in range(10):
        request = token_request(client_id, "wrong", address=f"198.51.100.{number}")
        assert isinstance(await attempt(context, keyring, request), errors.Unauthorized)
    wrong = token_request(client_id, "wrong", address="192.0.2.1")
    assert isinstance(await attempt(context, keyring, wrong), errors.RateLimited)
    right = token_request(client_id, issued.client_secret, address="192.0.2.1")
    assert isinstance(await attempt(context, keyring, right), AccessToken)


async def test_the_window_slides_with_retry_after(database: Addresses, context: Context, keyring: Keyring) -> None:
    await attempt(context, keyring, token_request("unknown", "wrong"))
    await age_failures(database, 30)
    for _ in range(9):
        await attempt(context, keyring, token_request("unknown", "wrong"))
    refused = await attempt(context, keyring, token_request("unknown", "wrong"))
    assert isinstance(refused, errors.RateLimited)
    assert 28 <= refused.retry_after_s <= 30
    await age_failures(database, 31)
    assert isinstance(await attempt(context, keyring, token_request("unknown", "wrong")), errors.Unauthorized)
    assert isinstance(await attempt(context, keyring, token_request("unknown", "wrong")), errors.RateLimited)


async def test_a_refused_try_does_not_count(database: Addresses, context: Context, keyring: Keyring) -> None:
    answers = [await attempt(context, keyring, token_request("unknown", "wrong")) for _ in range(15)]
    assert Counter(type(answer) for answer in answers) == {errors.Unauthorized: 10, AddressLimited: 5}
    await age_failures(database, 61)
    assert isinstance(await attempt(context, keyring, token_request("unknown", "wrong")), errors.Unauthorized)


@pytest.mark.parametrize("one_address", [True, False])
async def test_of_a_hundred_guesses_at_once_over_two_processes_ten_pass(
    database: Addresses, clock: FakeClock, context: Context, keyring: Keyring, issued: IssuedClient, one_address: bool
) -> None:
    async with identity.open_context(database, clock) as other:
        requests = [
            token_request(
                f"guess-{number}" if one_address else issued.client.client_id,
                "wrong",
                address="203.0.113.9" if one_address else f"198.51.100.{number}",
            )
            for number in range(100)
        ]
        answers = await asyncio.gather(
            *(attempt((context, other)[number % 2], keyring, request) for number, request in enumerate(requests))
        )
    refusals = Counter(isinstance(answer, errors.RateLimited) for answer in answers)
    assert refusals == {False: 10, True: 90}


async def test_old_failures_are_forgotten(database: Addresses, context: Context, keyring: Keyring) -> None:
    for number in range(20):
        await attempt(context, keyring, token_request(f"unknown-{number}", "wrong", address=f"192.0.2.{number}"))
    await age_failures(database, 61)
    await attempt(context, keyring, token_request("unknown", "wrong"))
    assert await context.pool.fetchval("select count(*) from token_failure") == 2


async def test_a_new_secret_replaces_the_old_one(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    again = await access.rotate_client(as_operator(context), issued.client.client_id)
    old = await attempt(context, keyring, token_request(issued.client.client_id, issued.client_secret))
    new = await attempt(context, keyring, token_request(issued.client.client_id, again.client_secret))
    assert isinstance(old, errors.Unauthorized)
    assert isinstance(new, AccessToken)
    assert again.client.rotated_at == STARTED_AT


async def test_a_secret_that_is_replaced_while_the_keys_are_looked_at_gets_no_token(
    context: Context, keyring: Keyring, issued: IssuedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the token would be dated after the replacement, which only ends earlier ones.
    look_after_rest = keyring.look_after_rest

    async def replace_and_look() -> None:
        await access.rotate_client(as_operator(context), issued.client.client_id)
        await look_after_rest()

    monkeypatch.setattr(keyring, "look_after_rest", replace_and_look)
    answer = await attempt(context, keyring, token_request(issued.client.client_id, issued.client_secret))
    assert isinstance(answer, errors.Unauthorized)


async def test_a_disabled_client_gets_no_token(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    request = token_request(issued.client.client_id, issued.client_secret)
    disabled = await access.disable_client(as_operator(context), issued.client.client_id)
    assert disabled.disabled_at == STARTED_AT
    assert isinstance(await attempt(context, keyring, request), errors.Unauthorized)
    await access.enable_client(as_operator(context), issued.client.client_id)
    assert isinstance(await attempt(context, keyring, request), AccessToken)


async def test_a_disabled_holder_gets_no_token(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    await holder.set_holder(as_operator(context), issued.client.holder_id, holder.HolderChanges(is_disabled=True))
    request = token_request(issued.client.client_id, issued.client_secret)
    assert isinstance(await attempt(context, keyring, request), errors.Unauthorized)


async def test_a_limited_address_is_refused_without_asking_the_database_and_heard_again_in_time(
    database: Addresses, context: Context, keyring: Keyring, clock: FakeClock
) -> None:
    issuer = TokenIssuer(context, keyring)
    request = token_request("unknown", "wrong")
    answers = await asyncio.gather(*(issuer.login(request) for _ in range(20)), return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {errors.Unauthorized: 10, AddressLimited: 10}
    await age_failures(database, 61)
    clock.advance(seconds=58)
    with pytest.raises(errors.RateLimited) as refused:
        await issuer.login(request)
    assert refused.value.retry_after_s in {1, 2}
    clock.advance(seconds=2)
    with pytest.raises(errors.Unauthorized):
        await issuer.login(request)


async def test_a_flood_leaves_connections_to_others(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    issuer = TokenIssuer(context, keyring, waiting_max=20)
    right = token_request(issued.client.client_id, issued.client_secret)
    flood = asyncio.gather(*(issuer.login(right) for _ in range(50)), return_exceptions=True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert context.pool.get_size() - context.pool.get_idle_size() <= token_issuer.JUDGED_AT_ONCE_MAX
    answers = Counter(type(answer) for answer in await flood)
    assert answers == {AccessToken: 20, errors.ServiceUnavailable: 30}
    assert isinstance(await issuer.login(right), AccessToken)


async def limit_client(context: Context, keyring: Keyring, client_id: str) -> None:
    for number in range(10):
        request = token_request(client_id, "wrong", address=f"198.51.100.{number}")
        assert isinstance(await attempt(context, keyring, request), errors.Unauthorized)


def guesses(client_id: str, count: int, address: str = "192.0.2.1") -> list[TokenRequest]:
    return [token_request(client_id, f"guess {number}", address=address) for number in range(count)]


async def test_guesses_at_a_limited_client_ask_the_database_once_a_second_and_limit_their_address(
    context: Context, keyring: Keyring, issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id = issued.client.client_id
    await limit_client(context, keyring, client_id)
    issuer = TokenIssuer(context, keyring)
    judged: list[TokenRequest] = []
    judge_alone = token_issuer.judge_alone

    async def count(context: Any, request: TokenRequest) -> Client:
        judged.append(request)
        return await judge_alone(context, request)

    monkeypatch.setattr(token_issuer, "judge_alone", count)
    answers = [await refusal_of(issuer, request) for request in guesses(client_id, 40)]
    assert Counter(type(answer) for answer in answers) == {ClientLimited: 10, AddressLimited: 30}
    assert len(judged) == 1
    clock.advance(seconds=1)
    assert isinstance(await refusal_of(issuer, guesses(client_id, 1, "192.0.2.2")[0]), ClientLimited)
    assert len(judged) == 2
    right = token_request(client_id, issued.client_secret, address="192.0.2.3")
    assert isinstance(await issuer.login(right), AccessToken)
    clock.advance(seconds=60)
    await issuer.login(token_request(client_id, issued.client_secret, address="192.0.2.1"))


async def test_a_new_secret_of_a_limited_client_is_known_within_a_second(
    context: Context, keyring: Keyring, issued: IssuedClient, clock: FakeClock
) -> None:
    client_id = issued.client.client_id
    await limit_client(context, keyring, client_id)
    issuer = TokenIssuer(context, keyring)
    assert isinstance(await refusal_of(issuer, guesses(client_id, 1)[0]), ClientLimited)
    again = await access.rotate_client(as_operator(context), client_id)
    clock.advance(seconds=1)
    renewed = token_request(client_id, again.client_secret, address="192.0.2.9")
    assert isinstance(await issuer.login(renewed), AccessToken)


async def test_a_client_id_that_does_not_exist_is_limited_alike(context: Context, keyring: Keyring) -> None:
    await limit_client(context, keyring, "invented")
    issuer = TokenIssuer(context, keyring)
    answers = [await refusal_of(issuer, request) for request in guesses("invented", 3)]
    assert {type(answer) for answer in answers} == {ClientLimited}


async def test_addresses_are_served_in_turn(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    issuer = TokenIssuer(context, keyring, waiting_max=40)
    served: list[str] = []

    async def log_in(address: str) -> None:
        await issuer.login(token_request(issued.client.client_id, issued.client_secret, address=address))
        served.append(address)

    flood = [asyncio.create_task(log_in("192.0.2.1")) for _ in range(60)]
    await asyncio.sleep(0)
    calm = [asyncio.create_task(log_in(f"192.0.2.{number}")) for number in range(2, 7)]
    await asyncio.gather(*calm)
    assert served.count("192.0.2.1") <= 10
    refused = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(answer, errors.ServiceUnavailable) for answer in refused) >= 20
    assert {type(answer) for answer in refused} == {type(None), errors.ServiceUnavailable}


async def test_those_who_wait_at_once_are_looked_at_together(
    context: Context, keyring: Keyring, issued: IssuedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    find = access_store.find_logging_in

    async def count(pool: Any, addresses: list[bytes], *rest: Any) -> Any:
        looked_at.append(len(addresses))
        return await find(pool, addresses, *rest)

    monkeypatch.setattr(access_store, "find_logging_in", count)
    monkeypatch.setattr(token_issuer, "judge_alone", None)
    issuer = TokenIssuer(context, keyring)
    credentials = issued.client.client_id, issued.client_secret
    requests = [token_request(*credentials, address=f"192.0.2.{number}") for number in range(JUDGED_TOGETHER_MAX)]
    await asyncio.gather(*(issuer.login(request) for request in requests))
    assert looked_at == [JUDGED_TOGETHER_MAX]


async def test_a_right_guess_among_many_gets_nothing(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    issuer = TokenIssuer(context, keyring)
    right = issued.client.client_id, issued.client_secret
    guessing = [token_request(issued.client.client_id, f"guess {number}") for number in range(11)]
    asked = [*guessing, *(token_request(*right) for _ in range(5)), token_request(*right, address="192.0.2.77")]
    *answers, elsewhere = await asyncio.gather(*(issuer.login(request) for request in asked), return_exceptions=True)
    # Two are judged at once, so it is open which of the eleven is too late; before the right ones ten are counted in
    # any case.
    assert Counter(type(answer) for answer in answers[:11]) == {errors.Unauthorized: 10, AddressLimited: 1}
    assert {type(answer) for answer in answers[11:]} == {AddressLimited}
    assert isinstance(elsewhere, AccessToken)


async def test_a_failure_being_counted_lets_none_in(context: Context, keyring: Keyring, issued: IssuedClient) -> None:
    right = token_request(issued.client.client_id, issued.client_secret)
    address = token_issuer.failure_subject("address", right.address)
    async with context.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await access_store.lock_subject(connection, access_store.ADDRESS_LOCKS, address)
        await access_store.append_failures(connection, [address] * 10)
        login = asyncio.create_task(TokenIssuer(context, keyring).login(right))
        async with asyncio.timeout(60):
            while not await context.pool.fetchval(IS_WAITING):  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        await transaction.commit()
    with pytest.raises(AddressLimited):
        await login


async def refusal_of(issuer: TokenIssuer, request: TokenRequest) -> errors.Refusal:
    with pytest.raises(errors.Refusal) as refused:
        await issuer.login(request)
    return refused.value
