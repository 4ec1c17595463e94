"""Signing keys from their making to their end."""

import asyncio
import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from pixconnect.features.identity.service import keyring as keyring_usecases
from pixconnect.features.identity.service import signing_key
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from support import identity
from support.identity import published_kids
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.service import FakeClock
from support.waiting import until

DAY_S = 86_400


async def test_an_old_key_is_published_for_thirty_days(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    old = published_kids(keyring)[0]
    new = (await signing_key.rotate(as_operator(context))).kid
    clock.advance(seconds=60 + 30 * DAY_S)
    await signing_key.rotate_if_due(context)
    await keyring.reload()
    assert published_kids(keyring) == [new, old]
    clock.advance(seconds=1)
    assert published_kids(keyring) == [new]
    await signing_key.rotate_if_due(context)
    assert await context.pool.fetchval("select count(*) from signing_key") == 1


async def test_a_private_part_is_forgotten_after_use(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    await signing_key.rotate(as_operator(context))
    clock.advance(seconds=60 + 601)
    await signing_key.rotate_if_due(context)
    rows = await context.pool.fetch("select private_sealed is null as gone from signing_key order by signs_from")
    assert [row["gone"] for row in rows] == [True, False]
    await keyring.reload()
    assert keyring.sign_jws(b"x")


async def test_keys_and_certificates_are_replaced(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    assert await signing_key.rotate_if_due(context) is None
    clock.advance(seconds=89 * DAY_S)
    assert await signing_key.rotate_if_due(context) is None
    clock.advance(seconds=DAY_S)
    made = await signing_key.rotate_if_due(context)
    assert made is not None
    assert made.expires_at > clock.real_now() + timedelta(days=365)
    assert await signing_key.rotate_if_due(context) is None


async def test_each_host_signs_with_keys_of_its_own_from_the_first_moment_on(
    database: Addresses, clock: FakeClock, context: Context, keyring: Keyring
) -> None:
    clock.advance(seconds=10)
    async with identity.open_context(database, clock, location_prefix="pix.example.com:8443/qr/") as moved:
        there = await identity.start_keyring(moved)
        leaf = base64.b64decode(there.certified_key_set()["keys"][0]["x5c"][0])
        names = x509.load_der_x509_certificate(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert names.value.get_values_for_type(x509.DNSName) == ["pix.example.com"]
        await keyring.reload()
        assert there.token_key().kid != keyring.token_key().kid
        assert published_kids(there) == published_kids(keyring)
        assert await signing_key.rotate_if_due(context) is None
        assert await signing_key.rotate_if_due(moved) is None


async def test_an_operator_elsewhere_rotates_the_key(database: Addresses, clock: FakeClock, keyring: Keyring) -> None:
    async with identity.open_context(database, clock, location_prefix="localhost/qr/") as elsewhere:
        made = await signing_key.rotate(as_operator(elsewhere))
    clock.advance(seconds=60)
    await keyring.reload()
    assert keyring.token_key().kid == made.kid


async def test_the_sandbox_clock_moves_no_key(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    clock.set_offset(timedelta(days=1000))
    assert await signing_key.rotate_if_due(context) is None
    keyring.check()


async def test_private_keys_are_sealed_in_the_database(database: Addresses, keyring: Keyring) -> None:
    async with as_owner(database) as connection:
        sealed = await connection.fetchval("select private_sealed from pixconnect.signing_key")
    assert sealed[0] == 2
    assert b"\x30\x81" not in sealed[:4]


async def test_a_foreign_sealed_key_is_not_replaced(database: Addresses, clock: FakeClock, keyring: Keyring) -> None:
    async with identity.open_context(database, clock, secret_key=bytes(32)) as other:
        with pytest.raises(SealBroken, match="another secret key"):
            await identity.start_keyring(other)
        assert await other.pool.fetchval("select count(*) from signing_key") == 1


async def test_a_revoked_key_is_gone_at_once_and_its_successor_signs(context: Context, keyring: Keyring) -> None:
    revoked = keyring.token_key().kid
    new = await signing_key.revoke(as_operator(context), revoked)
    assert await signing_key.revoke(as_operator(context), revoked) == new  # done twice it changes nothing
    await keyring.reload()
    assert published_kids(keyring) == [new.kid]
    assert [key["kid"] for key in keyring.certified_key_set()["keys"]] == [new.kid]
    assert keyring.public_key_document()["kid"] == keyring.token_key().kid == new.kid
    for compact in (keyring.sign_jws(b"x"), keyring.sign_location(b"{}", "jku"), keyring.sign_detached(b"x", {})):
        assert json.loads(identity.decode(compact.split(".")[0]))["kid"] == new.kid
    assert keyring.token_verification_key(revoked) is None
    assert await context.pool.fetchval("select private_sealed is null from signing_key where kid = $1", revoked)


async def test_a_waiting_key_follows_a_revoked_one(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    old = keyring.token_key().kid
    waiting = (await signing_key.rotate(as_operator(context))).kid
    clock.advance(seconds=10)
    assert (await signing_key.revoke(as_operator(context), old)).kid == waiting
    await keyring.reload()
    assert keyring.token_key().kid == waiting
    assert published_kids(keyring) == [waiting]


async def test_an_early_revocation_leaves_the_key_before(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    old = keyring.token_key().kid
    waiting = (await signing_key.rotate(as_operator(context))).kid
    clock.advance(seconds=10)
    assert (await signing_key.revoke(as_operator(context), waiting)).kid == old
    clock.advance(seconds=100)
    await keyring.reload()
    assert keyring.token_key().kid == old
    assert published_kids(keyring) == [old]


async def test_a_replaced_key_does_not_come_back(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    oldest = keyring.token_key().kid
    middle = (await signing_key.rotate(as_operator(context))).kid
    clock.advance(seconds=60 + 400)
    new = (await signing_key.revoke(as_operator(context), middle)).kid
    await keyring.reload()
    assert keyring.token_verification_key(oldest) is None
    assert keyring.token_key().kid == new
    assert published_kids(keyring) == [new, oldest]  # its signatures can still be verified, for 30 days after its replacement
    clock.advance(seconds=30 * DAY_S - 400 + 1)
    assert published_kids(keyring) == [new]


async def test_a_key_that_nobody_knows_cannot_be_revoked(context: Context, keyring: Keyring) -> None:
    with pytest.raises(errors.NotFound, match="there is no signing key x"):
        await signing_key.revoke(as_operator(context), "x")


async def test_a_revoked_key_is_forgotten_in_time(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    revoked = keyring.token_key().kid
    await signing_key.revoke(as_operator(context), revoked)
    clock.advance(seconds=30 * DAY_S)
    await signing_key.rotate_if_due(context)
    assert revoked in [key.kid for key in await signing_key.list_signing_keys(context)]
    clock.advance(seconds=1)
    await signing_key.rotate_if_due(context)
    assert revoked not in [key.kid for key in await signing_key.list_signing_keys(context)]


async def test_a_new_authority_certifies_the_next_key(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    before = keyring.certified_key_set()["keys"][0]["x5c"]
    made = await signing_key.renew_authority(as_operator(context))
    await keyring.reload()
    after = next(key["x5c"] for key in keyring.certified_key_set()["keys"] if key["kid"] == made.kid)
    assert before[1] != after[1]
    leaf, authority = (x509.load_der_x509_certificate(base64.b64decode(der)) for der in after)
    leaf.verify_directly_issued_by(authority)
    clock.advance(seconds=60)
    assert keyring.token_key().kid == made.kid
    assert (await signing_key.rotate(as_operator(context))).certificates[1] == made.certificates[1]


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


async def test_a_revoked_key_stays_revoked(context: Context, keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    revoked = keyring.token_key().kid
    original = keyring_usecases.signing_key_store.read_all

    async def slow(pool: Any) -> Any:
        """The keys are read, then one is revoked and another caller reads, and only then does the first answer arrive."""
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


async def test_a_rested_keyring_signs_without_a_database(context: Context, keyring: Keyring, clock: FakeClock) -> None:
    await context.pool.close()
    clock.advance(seconds=keyring_usecases.RESTED_AFTER_S)
    await keyring.look_after_rest()
    assert keyring.sign_jws(b"x")
