"""Tokens on every request: verified once, remembered, and invalid a second after their client is revoked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from pixconnect.features.identity.service import access, signing_key
from pixconnect.features.identity.service.access import TokenVerifier
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import TokenIssuer
from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import SCOPES, Caller, IssuedClient
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from support import identity
from support.identity import token_request
from support.operators import as_operator
from support.postgres import Addresses
from support.service import STARTED_AT, FakeClock

CERTIFICATE, OTHER_CERTIFICATE = "c" * 43, "o" * 43


@dataclass
class Process:
    context: Context
    keyring: Keyring
    verifier: TokenVerifier


@pytest.fixture
async def processes(database: Addresses, clock: FakeClock) -> AsyncIterator[list[Process]]:
    async with AsyncExitStack() as stack:
        made: list[Process] = []
        for _ in range(2):
            context = await stack.enter_async_context(identity.open_context(database, clock))
            keyring = await identity.start_keyring(context)
            made.append(Process(context, keyring, TokenVerifier(context, keyring, context.pool)))
        yield made


@pytest.fixture
def process(processes: list[Process]) -> Process:
    return processes[0]


@pytest.fixture
async def issued(process: Process) -> IssuedClient:
    owner = await identity.make_holder(process.context)
    return await access.create_client(as_operator(process.context), owner.id, "shop", SCOPES)


async def make_header(process: Process, issued: IssuedClient, **changes: Any) -> bytes:
    request = token_request(issued.client.client_id, issued.client_secret, **changes)
    return b"Bearer " + (await TokenIssuer(process.context, process.keyring).login(request)).access_token.encode()


def count_reads(process: Process, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def noting(original: Any) -> Any:
        def ask(pool: Any, query: str, *arguments: Any, **keywords: Any) -> Any:
            if pool is process.context.pool:
                asked.append(query)
            return original(pool, query, *arguments, **keywords)

        return ask

    for name in ("fetchval", "fetchrow", "fetch"):
        monkeypatch.setattr(asyncpg.Pool, name, noting(getattr(asyncpg.Pool, name)))
    return asked


async def test_a_token_tells_who_is_calling(process: Process, issued: IssuedClient) -> None:
    caller = await process.verifier.verify(await make_header(process, issued))
    assert caller == Caller(
        client_id=issued.client.client_id, holder_id=issued.client.holder_id, scopes=frozenset(SCOPES), token_id=caller.token_id
    )
    assert UUID(caller.token_id)


async def test_a_known_token_is_recalled_without_asking_anybody(
    process: Process, issued: IssuedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await make_header(process, issued)
    assert process.verifier.recall(header) is None
    caller = await process.verifier.verify(header)
    asked = count_reads(process, monkeypatch)
    assert process.verifier.recall(header) == caller
    assert asked == []


@pytest.mark.parametrize("verb", [access.disable_client, access.delete_client])
async def test_a_disabled_or_deleted_client_is_out_within_a_second_on_every_process(
    processes: list[Process], issued: IssuedClient, clock: FakeClock, verb: Any
) -> None:
    header = await make_header(processes[0], issued)
    for process in processes:
        await process.verifier.verify(header)
    await verb(as_operator(processes[0].context), issued.client.client_id)
    clock.advance(seconds=1.0)
    for process in processes:
        assert process.verifier.recall(header) is None
        with pytest.raises(errors.Unauthorized, match="disabled"):
            await process.verifier.verify(header)


async def test_a_disabled_holder_is_out_at_once(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    header = await make_header(process, issued)
    await process.verifier.verify(header)
    await holder.set_holder(as_operator(process.context), issued.client.holder_id, holder.HolderChanges(is_disabled=True))
    clock.advance(seconds=1.0)
    with pytest.raises(errors.Unauthorized, match="disabled"):
        await process.verifier.verify(header)
    await holder.set_holder(as_operator(process.context), issued.client.holder_id, holder.HolderChanges(is_disabled=False))
    clock.advance(seconds=1.0)
    await process.verifier.verify(header)
    assert process.verifier.recall(header) is not None


async def test_tokens_of_a_disabled_client_stay_dead_when_it_is_let_in_again(
    processes: list[Process], issued: IssuedClient, clock: FakeClock
) -> None:
    stolen = await make_header(processes[0], issued)
    for process in processes:
        await process.verifier.verify(stolen)
    await access.disable_client(as_operator(processes[0].context), issued.client.client_id)
    await access.enable_client(as_operator(processes[0].context), issued.client.client_id)
    fresh = await make_header(processes[0], issued)  # of the same second
    clock.advance(seconds=1.0)
    for process in processes:
        with pytest.raises(errors.Unauthorized, match="revoked"):
            await process.verifier.verify(stolen)
        assert await process.verifier.verify(fresh)


@pytest.mark.parametrize("verb", [access.revoke_tokens, access.rotate_client])
async def test_a_clients_tokens_are_ended_within_a_second_on_every_process_and_others_are_not(
    processes: list[Process], issued: IssuedClient, clock: FakeClock, verb: Any
) -> None:
    other = await access.create_client(as_operator(processes[0].context), issued.client.holder_id, "other", SCOPES)
    stolen, of_other = [await make_header(processes[0], one) for one in (issued, other)]
    for process in processes:
        await process.verifier.verify(stolen)
        await process.verifier.verify(of_other)
    clock.advance(seconds=60.4)
    changed = await verb(as_operator(processes[0].context), issued.client.client_id)
    again = issued if verb is access.revoke_tokens else changed
    fresh = await make_header(processes[0], again)
    clock.advance(seconds=1.0)
    for process in processes:
        assert process.verifier.recall(stolen) is None
        with pytest.raises(errors.Unauthorized, match="revoked"):
            await process.verifier.verify(stolen)
        assert await process.verifier.verify(of_other)
        assert await process.verifier.verify(fresh)


async def test_a_client_with_a_certificate_gets_and_uses_tokens_with_that_alone(
    processes: list[Process], issued: IssuedClient, clock: FakeClock
) -> None:
    process, client_id = processes[0], issued.client.client_id
    free = await make_header(process, issued)
    for each in processes:
        await each.verifier.verify(free)
    clock.advance(seconds=60.4)
    await access.set_certificate(as_operator(process.context), client_id, CERTIFICATE)
    clock.advance(seconds=1.0)
    for each in processes:
        with pytest.raises(errors.Unauthorized, match="revoked"):
            await each.verifier.verify(free)
    for wrong in (None, OTHER_CERTIFICATE):
        with pytest.raises(errors.Unauthorized, match="client certificate"):
            await make_header(process, issued, certificate=wrong)
    bound = await make_header(process, issued, certificate=CERTIFICATE)
    for each in processes:
        caller = await each.verifier.verify(bound)
        assert (caller.certificate, each.verifier.recall(bound)) == (CERTIFICATE, caller)
        # As one that was signed while the certificate was registered, or bound to another.
        issued_at = int(clock.real_now().timestamp()) + 5
        bindings: list[dict[str, Any]] = [{}, {"cnf": {"x5t#S256": OTHER_CERTIFICATE}}, {"cnf": {"jkt": CERTIFICATE}}]
        for changes in (*bindings, {"cnf": None}):
            with pytest.raises(errors.Unauthorized):
                await each.verifier.verify(forge(each, issued, iat=issued_at, exp=issued_at + 300, **changes))
    await access.set_certificate(as_operator(process.context), client_id, None)
    clock.advance(seconds=1.0)
    for each in processes:
        with pytest.raises(errors.Unauthorized):
            await each.verifier.verify(bound)
    assert (await process.verifier.verify(await make_header(process, issued))).certificate is None


async def test_a_token_of_a_revoked_key_is_refused_within_a_second_on_every_process_and_the_next_key_signs_at_once(
    processes: list[Process], issued: IssuedClient, clock: FakeClock
) -> None:
    stolen = processes[0].keyring.token_key()
    header = await make_header(processes[0], issued)
    for process in processes:
        await process.verifier.verify(header)
    new = await signing_key.revoke(as_operator(processes[0].context), stolen.kid)
    clock.advance(seconds=1.0)
    await processes[0].keyring.reload()
    fresh = await make_header(processes[0], issued)
    assert processes[0].keyring.token_key().kid == new.kid != stolen.kid
    for process in processes:
        assert process.verifier.recall(header) is None
        assert await process.verifier.verify(fresh)
        for dead in (header, forge(process, issued, stolen)):
            with pytest.raises(errors.Unauthorized, match="unknown key"):
                await process.verifier.verify(dead)


async def test_a_token_of_the_next_key_is_good_on_a_process_that_has_only_just_read_the_keys(
    processes: list[Process], issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds=seconds)

    await processes[1].keyring.reload()
    await signing_key.revoke(as_operator(processes[0].context), processes[0].keyring.token_key().kid)
    clock.advance(seconds=0.05)
    await processes[0].keyring.reload()
    fresh = await make_header(processes[0], issued)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert await processes[1].verifier.verify(fresh)
    assert waits == [pytest.approx(0.15)]


async def test_a_token_verified_while_its_key_was_revoked_is_not_remembered(
    process: Process, issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await make_header(process, issued)
    stolen = process.keyring.token_key().kid
    original = access.access_store.read_client_states

    async def overtaken(*arguments: Any) -> Any:
        """Its signature is verified, then its key is revoked and everyone is notified, and only then its client is read."""
        monkeypatch.setattr(access.access_store, "read_client_states", original)
        await signing_key.revoke(as_operator(process.context), stolen)
        clock.advance(seconds=1.0)
        await process.verifier._shared_look.look()
        return await original(*arguments)

    await process.verifier._shared_look.look()
    monkeypatch.setattr(access.access_store, "read_client_states", overtaken)
    with pytest.raises(errors.Unauthorized, match="unknown key"):
        await process.verifier.verify(header)
    assert process.verifier.recall(header) is None


async def test_others_are_still_remembered(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    other = await access.create_client(as_operator(process.context), issued.client.holder_id, "other", SCOPES)
    headers = [await make_header(process, one) for one in (issued, other)]
    for header in headers:
        await process.verifier.verify(header)
    await access.disable_client(as_operator(process.context), issued.client.client_id)
    clock.advance(seconds=1.0)
    await process.verifier.verify(headers[1])
    assert process.verifier.recall(headers[0]) is None
    assert process.verifier.recall(headers[1]) is not None


async def test_a_token_remembered_while_somebody_was_shut_out_is_asked_about_again(
    process: Process, issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await make_header(process, issued)
    other = await access.create_client(as_operator(process.context), issued.client.holder_id, "other", SCOPES)
    await process.verifier.verify(await make_header(process, other))
    original = access.access_store.read_client_states

    async def overtaken(*arguments: Any) -> Any:
        """The answer is read, then the client is revoked and everyone looks, and only then does it arrive."""
        clients = await original(*arguments)
        monkeypatch.setattr(access.access_store, "read_client_states", original)
        await access.disable_client(as_operator(process.context), issued.client.client_id)
        clock.advance(seconds=1.0)
        await process.verifier.verify(await make_header(process, other))
        return clients

    monkeypatch.setattr(access.access_store, "read_client_states", overtaken)
    await process.verifier.verify(header)
    assert process.verifier.recall(header) is None
    with pytest.raises(errors.Unauthorized):
        await process.verifier.verify(header)


async def test_the_background_keeps_tokens_fresh_while_requests_come_in(
    process: Process, issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await make_header(process, issued)
    await process.verifier.verify(header)
    keeping = asyncio.create_task(process.verifier.keep_fresh(look_every_s=0.01))
    for _ in range(5):
        fresh_until_s = process.verifier._fresh_until_s
        clock.advance(seconds=0.9)
        assert process.verifier.recall(header) is not None
        async with asyncio.timeout(60):
            while process.verifier._fresh_until_s == fresh_until_s:  # noqa: ASYNC110  no event to await
                await asyncio.sleep(0.01)
    assert not process.verifier._was_asked
    asked = count_reads(process, monkeypatch)
    await asyncio.sleep(0.1)
    assert asked == []  # no request came
    keeping.cancel()


async def test_a_gone_database_shuts_all_out(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    header = await make_header(process, issued)
    await process.verifier.verify(header)
    await process.context.pool.close()
    clock.advance(seconds=0.9)
    assert process.verifier.recall(header) is not None
    clock.advance(seconds=0.1)
    assert process.verifier.recall(header) is None
    with pytest.raises(errors.ServiceUnavailable):
        await process.verifier.verify(header)


async def test_an_expired_token_is_told_so(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    known, unknown = await make_header(process, issued), await make_header(process, issued)
    await process.verifier.verify(known)
    clock.advance(seconds=299)
    await process.verifier.verify(known)
    clock.advance(seconds=1)
    for header in (known, unknown):
        with pytest.raises(errors.Unauthorized, match="token expired"):
            await process.verifier.verify(header)


async def test_the_sandbox_clock_moves_no_token(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    header = await make_header(process, issued)
    clock.set_offset(clock.real_now() - STARTED_AT.replace(year=2020))
    assert await process.verifier.verify(header)


async def test_the_scheme_may_be_in_any_case(process: Process, issued: IssuedClient) -> None:
    token = (await make_header(process, issued)).removeprefix(b"Bearer ")
    for scheme in (b"bearer", b"BEARER", b"bEaReR"):
        assert (await process.verifier.verify(scheme + b" " + token)).client_id == issued.client.client_id


async def test_a_missing_or_malformed_header_is_unauthorized(process: Process, issued: IssuedClient) -> None:
    token = (await make_header(process, issued)).removeprefix(b"Bearer ")
    spoilt = [
        None, b"", token, b"Bearer", b"Bearer ", b"Bearer  " + token, b"Bearer\t" + token, b"Bearer " + token + b" ",
        b"Bearer " + token + b" x", b" Bearer " + token, b"Basic " + token, b"Bearer " + token[:-1],
        b"Bearer " + token + b"A", b"Bearer " + token * 20, b"Bearer \xff\xfe",
    ]  # fmt: skip
    for header in spoilt:
        with pytest.raises(errors.Unauthorized, match=r"^Authorization: "):
            await process.verifier.verify(header)


def forge(process: Process, issued: IssuedClient, key: jose.PrivateKey | None = None, **changes: Any) -> bytes:
    """A token that our own code would sign, with valid claims except for ``changes``."""
    now = int(STARTED_AT.timestamp())
    claims: dict[str, Any] = {
        "iss": "http://127.0.0.1:8080", "aud": "pix-connect", "sub": issued.client.client_id,
        "holder_id": str(issued.client.holder_id), "scope": "charge.read", "iat": now, "exp": now + 300, "jti": "1",
    }  # fmt: skip
    signer = key or process.keyring.token_key()
    return b"Bearer " + signer.sign(json.dumps(claims | changes).encode(), {"typ": "at+jwt"}).encode()


async def test_a_forgery_that_is_right_in_everything_passes(process: Process, issued: IssuedClient) -> None:
    assert (await process.verifier.verify(forge(process, issued))).scopes == {"charge.read"}


async def test_a_token_with_another_claim_is_refused(process: Process, issued: IssuedClient) -> None:
    others: list[dict[str, Any]] = [
        {"iss": "http://127.0.0.1:8081"}, {"iss": "http://127.0.0.1:8080/"}, {"aud": "other"},
        {"aud": ["pix-connect"]}, {"sub": "unknown"}, {"exp": "1800000000"}, {"exp": int(STARTED_AT.timestamp())},
        {"holder_id": 1}, {"holder_id": "one"},
    ]  # fmt: skip
    for changes in others:
        with pytest.raises(errors.Unauthorized):
            await process.verifier.verify(forge(process, issued, **changes))


async def test_a_token_of_another_key_is_refused_under_our_name_and_under_its_own(
    process: Process, issued: IssuedClient
) -> None:
    key = jose.make_key()
    for kid in (process.keyring.token_key().kid, jose.thumbprint(key)):
        with pytest.raises(errors.Unauthorized):
            await process.verifier.verify(forge(process, issued, jose.PrivateKey(key, kid)))


async def test_an_unknown_key_name_reads_the_keys_again_once_a_second(
    process: Process, issued: IssuedClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = [forge(process, issued, jose.PrivateKey(jose.make_key(), f"kid-{number}")) for number in range(20)]
    asked = count_reads(process, monkeypatch)
    clock.advance(seconds=1)
    answers = await asyncio.gather(*(process.verifier.verify(header) for header in headers), return_exceptions=True)
    assert {type(answer) for answer in answers} == {errors.Unauthorized}
    assert len(asked) == 1


async def test_another_processes_key_is_good(processes: list[Process], issued: IssuedClient, clock: FakeClock) -> None:
    await signing_key.rotate(as_operator(processes[0].context))
    await processes[0].keyring.reload()
    clock.advance(seconds=60)
    header = await make_header(processes[0], issued)
    assert await processes[1].verifier.verify(header)


async def test_a_replaced_key_verifies_until_expiry(process: Process, issued: IssuedClient, clock: FakeClock) -> None:
    stolen = process.keyring.token_key()
    await signing_key.rotate(as_operator(process.context))
    await process.keyring.reload()
    clock.advance(seconds=59)
    header = await make_header(process, issued)
    clock.advance(seconds=299)
    assert await process.verifier.verify(header)
    clock.advance(seconds=100)
    now = int(clock.real_now().timestamp())
    with pytest.raises(errors.Unauthorized, match="unknown key"):
        await process.verifier.verify(forge(process, issued, stolen, iat=now, exp=now + 300))
    assert stolen.kid in str(process.keyring.key_set())


async def test_no_more_tokens_are_remembered_than_there_is_room_for(process: Process, issued: IssuedClient) -> None:
    process.verifier._cached.size_max = 3
    headers = [forge(process, issued, jti=str(number)) for number in range(4)]
    for header in headers[:3]:
        await process.verifier.verify(header)
    process.verifier.recall(headers[0])
    await process.verifier.verify(headers[3])
    assert [process.verifier.recall(header) is not None for header in headers] == [True, False, True, True]


async def test_who_is_calling_is_found_out_although_everybody_reads(
    database: Addresses, clock: FakeClock, process: Process, issued: IssuedClient
) -> None:
    header = await make_header(process, issued)
    async with identity.open_context(database, clock) as own, AsyncExitStack() as readers:
        verifier = TokenVerifier(process.context, process.keyring, own.pool)
        for _ in range(process.context.pool.get_max_size()):
            await readers.enter_async_context(process.context.pool.acquire())
        assert (await verifier.verify(header)).client_id == issued.client.client_id
        clock.advance(seconds=access.FRESH_FOR_S)
        assert (await verifier.verify(header)).client_id == issued.client.client_id
