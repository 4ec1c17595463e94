"""After a leak of the secret key everything is sealed again, while the service runs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.identity.service import access, secret_key
from pixconnect.features.identity.service.token_issuer import TokenIssuer
from pixconnect.features.webhooks.rules.endpoint import endpoint_seal
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.adapters.secret_box import AesSecretBox
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from support import identity, operators
from support.identity import SECRET_KEY, token_request
from support.operators import as_operator
from support.postgres import Addresses
from support.service import FakeClock

NEW_KEY = bytes(32)
ENDPOINTS_COUNT = 7


def make_box(key: bytes, previous_key: bytes | None = None) -> AesSecretBox:
    return AesSecretBox(key, SystemEntropy(), previous_key=previous_key)


@pytest.fixture
async def before(database: Addresses, clock: FakeClock) -> AsyncIterator[Context]:
    """The service when the key leaked: keys, and webhook endpoints with one or two secrets."""
    async with identity.open_context(database, clock) as context:
        await identity.start_keyring(context)
        owner = await identity.make_holder(context)
        for endpoint_id in range(1, ENDPOINTS_COUNT + 1):
            sealed = [
                context.secret_box.seal(f"{name} {endpoint_id}".encode(), endpoint_seal(endpoint_id))
                for name in ("secret", "previous", "authorization")
            ]
            previous, until = (sealed[1], clock.now()) if endpoint_id % 2 else (None, None)
            await context.pool.execute(
                "insert into webhook_endpoint (id, holder_id, url, event_types, status, secret, previous_secret,"
                " previous_secret_until, created_at, modified_at, authorization_sealed)"
                " values ($1, $2, 'https://shop.example', '{qrcode.approved}', 'active', $3, $4, $6, $5, $5, $7)",
                *(
                    endpoint_id, owner.id, sealed[0], previous, clock.now(), until,
                    sealed[2] if endpoint_id % 3 else None,
                ),
            )  # fmt: skip
        yield context


@pytest.fixture
async def after(database: Addresses, clock: FakeClock, before: Context) -> AsyncIterator[Context]:
    """The same with a new key, and the previous one."""
    async with AsyncExitStack() as stack:
        context = await stack.enter_async_context(identity.open_context(database, clock))
        yield structs.replace(context, secret_box=make_box(NEW_KEY, previous_key=SECRET_KEY))


async def everything_sealed(context: Context) -> list[tuple[str, bytes]]:
    """The sealed values, with the contexts of their seals."""
    sealed: list[tuple[str, bytes]] = []
    for row in await context.pool.fetch("select id, secret, previous_secret, authorization_sealed from webhook_endpoint"):
        ours = (row["secret"], row["previous_secret"], row["authorization_sealed"])
        sealed += [(endpoint_seal(row["id"]), each) for each in ours if each is not None]
    rows = await context.pool.fetch(
        "select 'signing_key:' || kid as about, private_sealed from signing_key where private_sealed is not null"
        " union all select 'certificate_authority', private_sealed from certificate_authority"
    )
    return sealed + [(row["about"], row["private_sealed"]) for row in rows]


async def assert_only_the_new_key_opens(context: Context) -> None:
    old, new = make_box(SECRET_KEY), make_box(NEW_KEY)
    for about, sealed in await everything_sealed(context):
        assert new.open(sealed, about)
        with pytest.raises(SealBroken):
            old.open(sealed, about)


async def test_everything_is_sealed_again_and_a_second_run_has_nothing_to_do(after: Context) -> None:
    done = await secret_key.reseal(as_operator(after), batch_max=3)
    kinds = ("webhook_endpoints", "signing_keys", "authorities")
    assert [done.counts[kind] for kind in kinds] == [ENDPOINTS_COUNT, 1, 1]
    assert (done.broken, done.clients_left_count) == ([], 0)
    await assert_only_the_new_key_opens(after)
    sealed = await everything_sealed(after)
    again = await secret_key.reseal(as_operator(after))
    assert not any(again.counts.values())
    assert await everything_sealed(after) == sealed


async def test_values_sealed_before_keys_had_ids_are_sealed_again_under_the_same_key_too(before: Context) -> None:
    for about, sealed in await everything_sealed(before):
        assert sealed.startswith(before.secret_box.seal_head), about
    # In the earlier form: the same cipher, without an id.
    await before.pool.execute("update webhook_endpoint set secret = '\\x01' || substr(secret, 10)")
    assert (await secret_key.reseal(as_operator(before))).counts["webhook_endpoints"] == ENDPOINTS_COUNT
    for about, sealed in await everything_sealed(before):
        assert sealed.startswith(before.secret_box.seal_head), about
        assert before.secret_box.open(sealed, about)


async def test_a_run_that_was_killed_is_taken_up_where_it_was(after: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    original = endpoint_store.reseal
    calls: list[Any] = []

    async def dying(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        await original(*arguments)

    monkeypatch.setattr(endpoint_store, "reseal", dying)
    with pytest.raises(KeyboardInterrupt):
        await secret_key.reseal(as_operator(after), batch_max=2)
    assert (await secret_key.reseal(as_operator(after), batch_max=2)).counts["webhook_endpoints"] == ENDPOINTS_COUNT - 2
    await assert_only_the_new_key_opens(after)


async def test_what_neither_key_opens_is_named_and_stops_nobody_else(after: Context) -> None:
    await after.pool.execute("update webhook_endpoint set secret = '\\x01' where id = 3")
    done = await secret_key.reseal(as_operator(after))
    assert done.broken == ["webhook_endpoint:3"]
    assert done.counts["webhook_endpoints"] == ENDPOINTS_COUNT  # the third has a previous secret, which was readable
    assert await after.pool.fetchval("select secret from webhook_endpoint where id = 3") == b"\x01"


async def test_a_client_logs_in_with_its_old_secret_and_is_hashed_again(
    database: Addresses, before: Context, after: Context, clock: FakeClock
) -> None:
    holder_id = await before.pool.fetchval("select id from holder")
    issued = await access.create_client(as_operator(before), holder_id, "shop", ["charge.read"])
    await access.create_client(as_operator(before), holder_id, "silent", ["charge.read"])
    request = token_request(issued.client.client_id, issued.client_secret)
    keyring = identity.keyring_of(before)
    assert (await secret_key.reseal(as_operator(after))).clients_left_count == 2
    with pytest.raises(errors.Unauthorized):
        await TokenIssuer(after, keyring).login(token_request(issued.client.client_id, "wrong"))
    assert (await secret_key.reseal(as_operator(after))).clients_left_count == 2
    assert await TokenIssuer(after, keyring).login(request)
    assert (await secret_key.reseal(as_operator(after))).clients_left_count == 1
    assert [client.name for client in await secret_key.list_clients_left(as_operator(after))] == ["silent"]
    alone = structs.replace(after, secret_box=make_box(NEW_KEY))
    assert await TokenIssuer(alone, keyring).login(request)


async def test_a_client_older_than_key_ids_gets_one_at_its_next_login(before: Context) -> None:
    holder_id = await before.pool.fetchval("select id from holder")
    issued = await access.create_client(as_operator(before), holder_id, "shop", ["charge.read"])
    await operators.execute(before, "update client set secret_key_id = null")
    request = token_request(issued.client.client_id, issued.client_secret)
    assert await TokenIssuer(before, identity.keyring_of(before)).login(request)
    assert await before.pool.fetchval("select secret_key_id from client") == before.secret_box.key_id


async def test_a_keyring_signs_on_while_its_key_is_sealed_again(
    database: Addresses, before: Context, after: Context, clock: FakeClock
) -> None:
    keyring = identity.keyring_of(before)
    kid = keyring.token_key().kid
    await secret_key.reseal(as_operator(after))
    await keyring.reload()
    assert keyring.token_key().kid == kid
    async with identity.open_context(database, clock, secret_key=NEW_KEY) as alone:
        assert (await identity.start_keyring(alone)).token_key().kid == kid
    with pytest.raises(asyncpg.PostgresError):
        await operators.execute(before, "update signing_key set revoked_at = now()")


async def test_what_a_webhook_is_sent_is_sealed_again_also_where_its_secret_was_already(after: Context) -> None:
    new = after.secret_box.seal(b"new", endpoint_seal(2))
    await after.pool.execute("update webhook_endpoint set secret = $1 where id = 2", new)
    await secret_key.reseal(as_operator(after))
    sealed = await after.pool.fetchval("select authorization_sealed from webhook_endpoint where id = 2")
    assert make_box(NEW_KEY).open(sealed, endpoint_seal(2)) == b"authorization 2"
