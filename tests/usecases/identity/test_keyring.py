"""The signing keys as one process knows them: what it signs with, what it publishes, and when it reads them again."""

import asyncio
import base64
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.signing import Signer
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity import keyring as keyring_usecases
from pixconnect.usecases.identity import signing_key
from pixconnect.usecases.identity.keyring import Keyring
from support import identity
from support.identity import published_kids
from support.operators import as_operator
from support.postgres import Addresses
from support.service import FakeClock
from support.waiting import until

DAY_S = 86_400


async def test_a_keyring_is_a_signer(keyring: Keyring) -> None:
    def sign(signer: Signer) -> str:
        return signer.sign_jws(b"x")

    assert sign(keyring)


async def test_two_processes_at_once_make_one_key(database: Addresses, clock: FakeClock, context: Context) -> None:
    async with identity.open_context(database, clock) as other:
        keyrings = await asyncio.gather(*(identity.start_keyring(one) for one in (context, other)))
    assert published_kids(keyrings[0]) == published_kids(keyrings[1])
    assert len(published_kids(keyrings[0])) == 1


async def test_keys_are_read_again_in_time(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    keeping = asyncio.create_task(keyring.keep_fresh(reload_every_s=0.01))
    new = (await signing_key.rotate(as_operator(context))).kid
    await until(lambda: new in published_kids(keyring))
    keeping.cancel()
    clock.advance(seconds=60)
    assert keyring.token_key().kid == new


async def test_a_keyring_makes_the_next_key_when_it_is_time(keyring: Keyring, clock: FakeClock) -> None:
    clock.advance(seconds=90 * DAY_S)
    keeping = asyncio.create_task(keyring.keep_fresh(reload_every_s=0.01))
    await until(lambda: len(published_kids(keyring)) > 1)
    await asyncio.sleep(0.1)  # for one too many
    keeping.cancel()
    assert len(published_kids(keyring)) == 2


async def test_a_location_is_verified_as_a_payers_institution_would(keyring: Keyring, clock: FakeClock) -> None:
    jku = "http://127.0.0.1:8080/qr/jwks.json"
    compact = keyring.sign_location(b'{"txid":"x"}', jku)
    header, _, signature = identity.split(compact)
    assert set(header) == {"alg", "kid", "jku", "typ", "x5t#S256"}
    (jwk,) = [key for key in keyring.certified_key_set()["keys"] if key["kid"] == header["kid"]]
    chain = [base64.b64decode(text, validate=True) for text in jwk["x5c"]]
    leaf, authority = (x509.load_der_x509_certificate(der) for der in chain)
    assert identity.thumbprint(chain[0]) == header["x5t#S256"] == jwk["x5t#S256"]
    verifier = PolicyBuilder().store(Store([authority])).time(clock.real_now()).build_client_verifier()
    subjects = verifier.verify(leaf, []).subjects
    assert subjects is not None
    assert [str(subject.value) for subject in subjects] == ["127.0.0.1"]
    key: Any = leaf.public_key()
    assert key.public_numbers() == identity.public_key(jwk).public_numbers()
    assert identity.is_signed(compact.rpartition(".")[0], signature, key)


async def test_a_detached_signature_is_verified_with_the_published_key(keyring: Keyring) -> None:
    body = b'{"id": 1}'
    head, middle, signature = keyring.sign_detached(body, {"aud": "7", "iat": 1, "jti": "evt_1"}).split(".")
    header = json.loads(identity.decode(head))
    (jwk,) = [key for key in keyring.key_set()["keys"] if key["kid"] == header["kid"]]
    assert middle == ""
    assert identity.is_signed(f"{head}.{identity.encode(body)}", identity.decode(signature), identity.public_key(jwk))


async def test_what_is_published_has_exactly_the_promised_members(keyring: Keyring) -> None:
    document: dict[str, Any] = keyring.public_key_document()
    assert set(document) == {"kid", "kty", "crv", "x", "y", "alg", "use", "pem", "keys"}
    assert document["keys"] == keyring.key_set()["keys"]
    assert all(set(key) == {"kid", "kty", "crv", "x", "y", "alg", "use"} for key in document["keys"])
    assert document["pem"].startswith("-----BEGIN PUBLIC KEY-----")


async def test_the_check_fails_without_a_key_or_with_old_reads(context: Context, clock: FakeClock) -> None:
    with pytest.raises(errors.ServiceUnavailable, match="none to sign with"):
        identity.keyring_of(context).check()
    keyring = await identity.start_keyring(context)
    keyring.check()
    clock.advance(seconds=121)
    with pytest.raises(errors.ServiceUnavailable, match="not read"):
        keyring.check()


async def test_a_gone_database_leaves_the_keys_that_were_read(context: Context, keyring: Keyring) -> None:
    await context.pool.close()
    with pytest.raises(errors.ServiceUnavailable):
        await keyring.reload()
    assert keyring.sign_jws(b"x")


async def test_every_keyring_hears_of_a_revoked_key_by_itself(context: Context, keyring: Keyring) -> None:
    revoked = keyring.token_key().kid
    keeping = asyncio.create_task(keyring.keep_fresh(look_every_s=0.01))
    new = await signing_key.revoke(as_operator(context), revoked)
    await until(lambda: published_kids(keyring) == [new.kid])
    keeping.cancel()


async def test_keys_are_looked_at_twice_a_second_at_least() -> None:
    assert keyring_usecases.LOOK_INTERVAL_S <= 0.5


async def test_a_process_whose_clock_is_behind_signs_with_the_successor_too(
    database: Addresses, context: Context, keyring: Keyring, clock: FakeClock
) -> None:
    clock.advance(seconds=100)
    revoked, late = keyring.token_key().kid, FakeClock(monotonic_s=0.0)
    late.advance(seconds=95)
    async with identity.open_context(database, late) as behind:
        there = await identity.start_keyring(behind)
        new = await signing_key.revoke(as_operator(context), revoked)
        await there.reload()
        assert there.token_key().kid == new.kid


async def test_an_answer_that_was_overtaken_does_not_bring_a_revoked_key_back(
    context: Context, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = keyring.token_key().kid
    original = keyring_usecases.signing_key_store.read_all

    async def slow(pool: Any) -> Any:
        """The keys are read, then one of them is revoked and somebody else reads, and only then does the answer arrive."""
        read = await original(pool)
        monkeypatch.setattr(keyring_usecases.signing_key_store, "read_all", original)
        await signing_key.revoke(as_operator(context), revoked)
        others.append(asyncio.create_task(keyring.reload()))
        await asyncio.sleep(0.2)
        return read

    others: list[asyncio.Task[None]] = []
    monkeypatch.setattr(keyring_usecases.signing_key_store, "read_all", slow)
    await keyring.reload()
    await asyncio.gather(*others)
    assert revoked not in published_kids(keyring)


async def test_who_has_rested_looks_before_it_signs(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    revoked = keyring.token_key().kid
    new = await signing_key.revoke(as_operator(context), revoked)
    await keyring.look_after_rest()
    assert keyring.token_key().kid == revoked  # it looked less than a second ago
    clock.advance(seconds=keyring_usecases.RESTED_AFTER_S)
    await keyring.look_after_rest()
    assert keyring.token_key().kid == new.kid


async def test_all_who_come_while_one_looks_wait_for_it_also_where_that_one_goes_away(
    context: Context, keyring: Keyring, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = keyring.token_key().kid
    await signing_key.revoke(as_operator(context), revoked)
    clock.advance(seconds=keyring_usecases.RESTED_AFTER_S)
    read_revision, looks, may_answer = keyring_usecases.access_store.read_revision, 0, asyncio.Event()

    async def wait_and_read(pool: Any) -> int:
        nonlocal looks
        looks += 1
        await may_answer.wait()
        return await read_revision(pool)

    async def sign() -> str:
        await keyring.look_after_rest()
        return keyring.token_key().kid

    monkeypatch.setattr(keyring_usecases.access_store, "read_revision", wait_and_read)
    first, *others = [asyncio.create_task(sign()) for _ in range(4)]
    await until(lambda: looks == 1)
    first.cancel()
    may_answer.set()
    assert revoked not in await asyncio.gather(*others)
    assert looks == 1


async def test_a_rested_keyring_signs_without_a_database(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    await context.pool.close()
    clock.advance(seconds=keyring_usecases.RESTED_AFTER_S)
    await keyring.look_after_rest()
    assert keyring.sign_jws(b"x")
