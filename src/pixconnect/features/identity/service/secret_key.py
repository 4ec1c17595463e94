"""Rotates the secret key: every secret that another key sealed is sealed again, while the service runs.

It works in batches, each a separate transaction, and finds the remaining work by the rows alone: after a crash it continues,
and a repeated run changes nothing. We do not have clients' secrets, so their hashes cannot be renewed here: a client's hash
changes at its next token request.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from pixconnect.features.identity.service.console_session import about_totp
from pixconnect.features.identity.service.signing_key import ABOUT_AUTHORITY, about_key
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables import console as console_store
from pixconnect.features.identity.tables import signing_key as signing_key_store
from pixconnect.features.institutions.rules.account import account_seal
from pixconnect.features.institutions.rules.sweep import callback_seal
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables.account import SealedCredentials
from pixconnect.features.webhooks.rules.endpoint import Endpoint, endpoint_seal
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.access import Client
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.pool import Connection

BATCH_MAX = 200
"""Webhook endpoints whose rows are locked at once."""


class Resealed(Struct, frozen=True, kw_only=True):
    webhook_endpoints_count: int
    signing_keys_count: int
    authorities_count: int
    operators_count: int
    """Their second factors."""
    institution_accounts_count: int
    """Their credentials."""
    broken: Sequence[str]
    """Secrets that neither key opens, each named by its subject; they stay unchanged."""
    clients_left_count: int
    """Clients whose secret is not yet hashed under the key in use, as far as we know."""


async def refuse_other_key(connection: Connection, box: SecretBox) -> None:
    """Raise ``SealBroken`` if the box opens none of the signing keys; the tables may be those of an older version."""
    sealed = await signing_key_store.find_sealed(connection)
    for number, (kid, private) in enumerate(sealed.items(), 1):
        try:
            box.open(private, about_key(kid))
        except SealBroken:
            # One that opens proves the key, since an interrupted rotation leaves some sealed by the other one. If none does,
            # the tables are another installation's.
            if number == len(sealed):
                raise
        else:
            return


async def reseal(context: Operator, batch_max: int = BATCH_MAX) -> Resealed:
    broken: list[str] = []
    keys_count, authorities_count, operators_count = await _reseal_keys(context, broken)
    accounts_count = await _reseal_accounts(context, broken)
    endpoints_count = await _reseal_endpoints(context, broken, batch_max)
    async with context.pool.acquire() as connection:
        clients_left_count = await access_store.count_hashed_otherwise(connection, context.secret_box.key_id)
    return Resealed(
        webhook_endpoints_count=endpoints_count,
        signing_keys_count=keys_count,
        authorities_count=authorities_count,
        operators_count=operators_count,
        institution_accounts_count=accounts_count,
        broken=broken,
        clients_left_count=clients_left_count,
    )


async def list_clients_left(context: Operator) -> list[Client]:
    """Clients that could not get a token without the previous key, as far as we know; ordered by client_id."""
    found: list[Client] = []
    async with context.pool.acquire() as connection:
        while True:
            after = found[-1].client_id if found else ""
            page = await access_store.list_hashed_otherwise(connection, context.secret_box.key_id, after, BATCH_MAX)
            found += page
            if len(page) < BATCH_MAX:
                return found


async def _reseal_keys(context: Operator, broken: list[str]) -> tuple[int, int, int]:
    box = context.secret_box
    keys_count = authorities_count = operators_count = 0
    # These are few, so one transaction takes them all.
    async with context.pool.acquire() as connection, connection.transaction():
        # Locks out the making of keys until the end: a process may be about to seal with the former key.
        await signing_key_store.lock(connection)
        for key in await signing_key_store.list_all(connection):
            sealed = _again(box, key.private_sealed, about_key(key.kid), broken)
            if sealed is not None:
                await signing_key_store.reseal(connection, key.kid, sealed)
                keys_count += 1
        for authority in await signing_key_store.list_authorities(connection):
            sealed = _again(box, authority.private_sealed, ABOUT_AUTHORITY, broken)
            if sealed is not None:
                await signing_key_store.reseal_authority(connection, authority, sealed)
                authorities_count += 1
        for operator in await console_store.lock_operators(connection):
            sealed = _again(box, operator.totp_sealed, about_totp(operator.name), broken)
            if sealed is not None:
                await console_store.update_operator(connection, structs.replace(operator, totp_sealed=sealed))
                operators_count += 1
        done = dict(signing_keys=keys_count, authorities=authorities_count, operators=operators_count)
        await audit.record(context, connection, "secrets reseal", f"secret-key {box.key_id.hex()}", after=done)
    return keys_count, authorities_count, operators_count


async def _reseal_accounts(context: Operator, broken: list[str]) -> int:
    """Reseal credentials at institutions; processes that have one open keep it."""
    count = 0
    async with context.pool.acquire() as connection, connection.transaction():
        for account in await account_store.list_all(connection):
            before = await account_store.read_sealed(connection, account.id)
            if before is None:
                continue
            receiving = _again(context.secret_box, before.receiving, account_seal(account.id), broken)
            about_sending = account_seal(account.id, "sending")
            sending: bytes | None = None
            if context.sending_box is not None:
                sending = _again(context.sending_box, before.sending, about_sending, broken)
            # The key that opens it may be on another machine. It is named, so that this is run again there.
            elif before.sending is not None:
                broken.append(about_sending)
            if receiving is not None or sending is not None:
                after = SealedCredentials(receiving=receiving or before.receiving, sending=sending or before.sending)
                await account_store.reseal(connection, account.id, after)
                count += 1
        for callback in await account_store.lock_callbacks(connection):
            sealed = _again(context.secret_box, callback.secret_sealed, callback_seal(callback.institution_id), broken)
            if sealed is not None:
                await account_store.CALLBACK.put(connection, structs.replace(callback, secret_sealed=sealed))
    return count


async def _reseal_endpoints(context: Operator, broken: list[str], batch_max: int) -> int:
    count, after_id = 0, 0
    while True:
        async with context.pool.acquire() as connection, connection.transaction():
            batch = await endpoint_store.lock_sealed_otherwise(connection, context.secret_box.seal_head, after_id, batch_max)
            for endpoint in batch:
                resealed = _reseal_endpoint(context.secret_box, endpoint, broken)
                if resealed != endpoint:
                    await endpoint_store.reseal(connection, resealed)
                    count += 1
        if len(batch) < batch_max:
            return count
        # Onwards by the id, not by the remaining rows: one that no key opens remains each time.
        after_id = batch[-1].id


def _reseal_endpoint(box: SecretBox, endpoint: Endpoint, broken: list[str]) -> Endpoint:
    about = endpoint_seal(endpoint.id)
    return structs.replace(
        endpoint,
        secret_sealed=_again(box, endpoint.secret_sealed, about, broken) or endpoint.secret_sealed,
        previous_secret_sealed=_again(box, endpoint.previous_secret_sealed, about, broken) or endpoint.previous_secret_sealed,
        authorization_sealed=_again(box, endpoint.authorization_sealed, about, broken) or endpoint.authorization_sealed,
    )


def _again(box: SecretBox, sealed: bytes | None, about: str, broken: list[str]) -> bytes | None:
    """Reseal a secret with the key in use; ``None`` if it is already, or if no key opens it."""
    # The seal's head names the key, so a second run opens nothing and writes nothing.
    if sealed is None or sealed.startswith(box.seal_head):
        return None
    try:
        return box.seal(box.open(sealed, about), about)
    except SealBroken:
        broken.append(about)
        return None
