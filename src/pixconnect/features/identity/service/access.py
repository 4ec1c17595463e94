"""Operators' actions on clients. ``token_issuer.py`` issues their tokens.

Every function that makes or changes a client raises ``NotFound`` if the holder or client does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from pixconnect.features.identity.tables import access as access_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.rules import access as access_rules
from pixconnect.kernel.rules.access import SCOPES, Client, IssuedClient
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import Entropy, SecretBox
from pixconnect.platform.pool import Connection

_CLIENT_ID_LENGTH = 24
_SECRET_LENGTH = 43
"""Characters, of 62 letters and digits: 256 bits."""
_NAME_LENGTH_MAX = 255


async def create_client(
    context: Operator, holder_id: int, name: str, scopes: Sequence[str], *, client_id: str = "", client_secret: str = ""
) -> IssuedClient:
    """Create a client of a holder; its secret is returned here and cannot be read again.

    Args:
        client_id: An unused one; if empty, it is generated, as is its secret.
    """
    if not 1 <= len(name) <= _NAME_LENGTH_MAX or not name.isprintable():
        raise errors.BadRequest(f"name: must have 1 to {_NAME_LENGTH_MAX} printable characters")
    # No client gets all scopes of real money by oversight: in live mode the operator must name them.
    client = Client(
        client_id=client_id or make_client_id(context.entropy),
        holder_id=holder_id,
        name=name,
        scopes=access_rules.parse_scopes(scopes or (SCOPES if context.policy.is_sandbox else ())),
        created_at=context.clock.real_now(),
    )
    client_secret = client_secret or make_webhook_secret(context.entropy)
    secret_hash, *_ = hash_secret(context.secret_box, client.client_id, client_secret)
    async with write_alone(context.pool) as connection:
        holder = await holder_store.find(connection, holder_id)
        if holder is None:
            raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
        holder.check_not_succeeded()
        await access_store.insert(connection, client, secret_hash, context.secret_box.key_id)
        await audit.record(context, connection, "client create", f"client {client.client_id}", after=client)
    return IssuedClient(client=client, client_secret=client_secret)


async def set_scopes(context: Operator, client_id: str, scopes: Sequence[str], *, added: Sequence[str] = ()) -> Client:
    """Replace a client's scopes (none: keep them) and add others; if it loses one, its tokens are refused."""
    if not scopes and not added:
        raise errors.BadRequest("scope: name at least one")
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        wanted = access_rules.parse_scopes([*(scopes or before.scopes), *added])
        # A token contains its scopes, so tokens with a lost scope must end.
        is_narrower = not set(before.scopes) <= set(wanted)
        tokens_from = access_rules.end_tokens_at(context.clock.real_now()) if is_narrower else None
        client = _found(
            await access_store.change(connection, access_store.SET_SCOPES, client_id, list(wanted), tokens_from),
            client_id,
        )
        await audit.record(context, connection, "client set", f"client {client_id}", before=before, after=client)
    return client


async def set_certificate(
    context: Operator, client_id: str, certificate: str | None, expires_at: datetime | None = None
) -> Client:
    """Bind a client to a certificate by its thumbprint, or to none; every token issued until now is refused."""
    tokens_from = access_rules.end_tokens_at(context.clock.real_now())
    values = certificate, expires_at, tokens_from
    return await _change(context, "client certificate", client_id, access_store.SET_CERTIFICATE, *values)


async def rotate_client(context: Operator, client_id: str) -> IssuedClient:
    """Replace a client's secret: the old one is refused at once, and every token issued until now within a second."""
    client_secret = make_webhook_secret(context.entropy)
    secret_hash, *_ = hash_secret(context.secret_box, client_id, client_secret)
    # Real time, as for all tokens: the sandbox's clock must not revive an old one.
    now = context.clock.real_now()
    values = secret_hash, context.secret_box.key_id, now, access_rules.end_tokens_at(now)
    client = await _change(context, "client rotate", client_id, access_store.ROTATE, *values)
    return IssuedClient(client=client, client_secret=client_secret)


async def disable_client(context: Operator, client_id: str) -> Client:
    """Disable a client, on every process within a second; its tokens are refused for ever."""
    now = context.clock.real_now()
    values = now, access_rules.end_tokens_at(now)
    return await _change(context, "client disable", client_id, access_store.DISABLE, *values)


async def enable_client(context: Operator, client_id: str) -> Client:
    """Enable a client; it needs new tokens."""
    return await _change(context, "client enable", client_id, access_store.ENABLE)


async def delete_client(context: Operator, client_id: str) -> Client:
    """Delete a client: its tokens are refused on every process within a second, and its secret is invalid."""
    async with write_alone(context.pool) as connection:
        client = await _lock(connection, client_id)
        await access_store.delete(connection, client_id)
        await audit.record(context, connection, "client delete", f"client {client_id}", before=client)
    return client


async def revoke_tokens(context: Operator, client_id: str) -> Client:
    """Refuse all tokens issued to a client until now, on every process within a second; it can get new ones."""
    tokens_from = access_rules.end_tokens_at(context.clock.real_now())
    return await _change(context, "client revoke-tokens", client_id, access_store.END_TOKENS, tokens_from)


async def list_clients(context: Operator, holder_id: int) -> list[Client]:
    """The holder's clients, oldest first."""
    async with context.pool.acquire() as connection:
        return await access_store.list_of_holder(connection, holder_id)


async def _change(context: Operator, verb: str, client_id: str, how: LiteralString, *values: object) -> Client:
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        client = _found(await access_store.change(connection, how, client_id, *values), client_id)
        await audit.record(context, connection, verb, f"client {client_id}", before=before, after=client)
    return client


async def _lock(connection: Connection, client_id: str) -> Client:
    return _found(await access_store.lock(connection, client_id), client_id)


def _found(client: Client | None, client_id: str) -> Client:
    return errors.found(client, f"client_id: there is no client {client_id}")


def make_client_id(entropy: Entropy) -> str:
    return entropy.token(_CLIENT_ID_LENGTH)


def make_webhook_secret(entropy: Entropy) -> str:
    return entropy.token(_SECRET_LENGTH)


def hash_secret(secret_box: SecretBox, client_id: str, client_secret: str) -> Sequence[bytes]:
    """Return the secret's hash under the key in use, and then under any previous one."""
    # With the client_id, so that equal secrets have different hashes.
    text = f"{client_id}:{client_secret}"
    return secret_box.fingerprints(text.encode("utf-8", "surrogatepass"), "client_secret")
