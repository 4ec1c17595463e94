"""Rotates the secret key: every secret that another key sealed is sealed again, while the service runs.

It works in batches, each a separate transaction, and finds the remaining work by the rows alone: after a crash it continues,
and a repeated run changes nothing. We do not have clients' secrets, so their hashes cannot be renewed here: a client's hash
changes at its next token request.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, structs

from pixconnect.features.identity.service.console_session import about_totp
from pixconnect.features.identity.service.signing_key import ABOUT_AUTHORITY, about_key
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables import console as console_store
from pixconnect.features.identity.tables import signing_key as signing_key_store
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.access import Client
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.pool import Connection

BATCH_MAX = 200  # how many rows of a kind with many are locked at once


class Resealing:
    """One run, and what neither key opened in it."""

    def __init__(self, context: Operator, batch_max: int = BATCH_MAX) -> None:
        self.context = context
        self.batch_max = batch_max
        self.broken: list[str] = []

    def again(self, sealed: bytes | None, about: str, box: SecretBox | None = None) -> bytes | None:
        """Seal a secret with the key in use; ``None`` if it is already, or if no key opens it."""
        box = box or self.context.secret_box
        # The seal's head names the key, so a second run opens nothing and writes nothing.
        if sealed is None or sealed.startswith(box.seal_head):
            return None
        try:
            return box.seal(box.open(sealed, about), about)
        except SealBroken:
            self.broken.append(about)
            return None


class SealedKind(Struct, frozen=True):
    """Secrets that a feature seals."""

    name: str  # in the plural, as the command prints it
    # Seals those that another key sealed again, in transactions of its own; returns how many.
    reseal: Callable[[Resealing], Awaitable[int]]


class Resealed(Struct, frozen=True, kw_only=True):
    counts: Mapping[str, int]  # by kind
    broken: Sequence[str]  # secrets that neither key opens, each named by its subject; they stay unchanged
    clients_left_count: int  # clients whose secret is not yet hashed under the key in use, as far as we know


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
    run = Resealing(context, batch_max)
    counts = await _reseal_own(run)
    for kind in gather("sealed_kinds", SealedKind):
        counts[kind.name] = await kind.reseal(run)
    async with context.pool.acquire() as connection:
        clients_left_count = await access_store.count_hashed_otherwise(connection, context.secret_box.key_id)
    return Resealed(counts=counts, broken=run.broken, clients_left_count=clients_left_count)


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


async def _reseal_own(run: Resealing) -> dict[str, int]:
    context = run.context
    done = dict(signing_keys=0, authorities=0, operators=0)
    # These are few, so one transaction takes them all.
    async with context.pool.acquire() as connection, connection.transaction():
        # Locks out the making of keys until the end: a process may be about to seal with the former key.
        await signing_key_store.lock(connection)
        for key in await signing_key_store.list_all(connection):
            if (sealed := run.again(key.private_sealed, about_key(key.kid))) is not None:
                await signing_key_store.reseal(connection, key.kid, sealed)
                done["signing_keys"] += 1
        for authority in await signing_key_store.list_authorities(connection):
            if (sealed := run.again(authority.private_sealed, ABOUT_AUTHORITY)) is not None:
                await signing_key_store.reseal_authority(connection, structs.replace(authority, private_sealed=sealed))
                done["authorities"] += 1
        for operator in await console_store.lock_operators(connection):
            if (sealed := run.again(operator.totp_sealed, about_totp(operator.name))) is not None:
                await console_store.update_operator(connection, structs.replace(operator, totp_sealed=sealed))
                done["operators"] += 1
        await audit.record(context, connection, "secrets reseal", f"secret-key {context.secret_box.key_id.hex()}", after=done)
    return done
