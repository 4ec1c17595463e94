"""Credentials of accounts at institutions: sealed in the database, opened for use; and the expiry of their certificates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import (
    AccountCertificate,
    Credential,
    EndingCertificate,
    InstitutionAccount,
    account_seal,
    are_at_one_institution,
    describe_end,
    find_ending,
    find_shared_member,
)
from pixconnect.features.institutions.rules.account_file import AccountDescription, ReadFile
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable, PermissionTried
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables.account import SealedCredentials
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.pool import Connection, Pool

OpenInstitution = Callable[[InstitutionAccount, Credential], Institution]
"""Makes the client of an account; it connects on its first call."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Credential).decode


def seal_credentials(
    box: SecretBox, sending_box: SecretBox | None, said: AccountDescription, account_id: int
) -> SealedCredentials:
    """Seal the receiving credential for all processes, and the sending one under a key that API processes lack.

    Raises:
        BadRequest: There is a sending credential, and no key to seal it with.
    """
    sending: bytes | None = None
    if said.sending is not None:
        if sending_box is None:
            raise errors.BadRequest(
                "send: there is no key to seal it with: set PIXCONNECT_SENDING_SECRET_KEY for workers and operators"
            )
        sending = sending_box.seal(_encode(said.sending), account_seal(account_id, "sending"))
    return SealedCredentials(receiving=box.seal(_encode(said.receiving), account_seal(account_id)), sending=sending)


async def read_sending_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """Read the sending credential; ``None`` if the account has no separate one."""
    sealed = await account_store.read_sealed(connection, account_id)
    if sealed is None or sealed.sending is None:
        return None
    return _decode(box.open(sealed.sending, account_seal(account_id, "sending")))


async def find_why_sealed(context: Operator, connection: Connection, account_id: int) -> str | None:
    """Find why this process cannot open the sending credential; ``None`` if it can, or the account has no separate one."""
    if context.sending_box is not None:
        try:
            await read_sending_credential(connection, context.sending_box, account_id)
        except SealBroken:
            # A backup has the values sealed at its time, and the key may have been replaced since.
            return "PIXCONNECT_SENDING_SECRET_KEY is not the key that it was sealed with"
        return None
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None or sealed.sending is None else "PIXCONNECT_SENDING_SECRET_KEY is not set here"


async def read_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """Read the receiving credential; ``None`` if the account does not exist."""
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None else _decode(box.open(sealed.receiving, account_seal(account_id)))


async def open_credential(context: Operator, account_id: int) -> Credential:
    """Read the receiving credential; raises ``NotFound``."""
    async with context.pool.acquire() as connection:
        credential = await read_credential(connection, context.secret_box, account_id)
    if credential is None:
        raise errors.NotFound(f"institution: there is no account {account_id}")
    return credential


async def open_for_operator(
    context: Operator, open_institution: OpenInstitution, account: InstitutionAccount
) -> Institution:
    return open_institution(account, await open_credential(context, account.id))


async def list_ending(connection: Connection | Pool, now: datetime) -> list[EndingCertificate]:
    """List certificates that expire soon, soonest first."""
    return find_ending(await account_store.list_certificates(connection), now)


class KnownAccount(Struct, frozen=True, kw_only=True):
    """An open account with its receiving credential: together they identify it."""

    account: InstitutionAccount
    client: Credential


def read_no_file(path: str) -> str:
    """A ``ReadFile`` that can read none: a comparison that needs a file is refused then."""
    raise errors.BadRequest(f"{path}: cannot be read")


async def list_known(connection: Connection, box: SecretBox) -> list[KnownAccount]:
    """List all accounts of this database that are not closed, by name."""
    return [
        KnownAccount(account=account, client=await _read_known(connection, box, account))
        for account in await account_store.list_all(connection)
        if account.state != "closed"
    ]


def find_shared(one: KnownAccount, other: KnownAccount, read_file: ReadFile) -> str | None:
    """As ``find_shared_member``, for secrets stored anywhere.

    Raises:
        BadRequest: The comparison needs a file that cannot be read.
    """
    shared = find_shared_member(one.account, one.client, other.account, other.client)
    # A client_id identifies the client, regardless of its secret.
    if (
        shared
        or one.client.client_id
        or other.client.client_id
        or not are_at_one_institution(one.account, other.account)
    ):
        return shared
    try:
        clients = _with_secret(one.client, read_file), _with_secret(other.client, read_file)
    except errors.BadRequest as error:
        raise errors.BadRequest(
            f"client_secret_file: it is unknown whether {one.account.name} and {other.account.name} are one "
            f"account: {error.message}"
        ) from None
    return find_shared_member(one.account, clients[0], other.account, clients[1])


def _with_secret(client: Credential, read_file: ReadFile) -> Credential:
    if not client.client_secret_file:
        return client
    return structs.replace(client, client_secret=read_file(client.client_secret_file).strip(), client_secret_file="")


async def refuse_same_account(connection: Connection, box: SecretBox, one: KnownAccount, read_file: ReadFile) -> None:
    """Refuse an account that equals an open one here, by key, number or client.

    Two accounts here that are one at the institution would count its money twice.
    """
    for other in await list_known(connection, box):
        shared = None if other.account.id == one.account.id else find_shared(one, other, read_file)
        if shared is not None:
            raise errors.BadRequest(f"{shared} is on the account {other.account.name}: a bank account is added once")


async def _read_known(connection: Connection, box: SecretBox, account: InstitutionAccount) -> Credential:
    try:
        return errors.require(await read_credential(connection, box, account.id), "a listed account has a row")
    except SealBroken:
        return Credential()  # the health check reports it; numbers and keys are compared all the same


async def try_permissions(
    context: Operator, open_institution: OpenInstitution, account: InstitutionAccount
) -> Sequence[PermissionTried]:
    """Try each permission of the credentials without moving money; record and return when their certificates expire."""
    institution = await open_for_operator(context, open_institution, account)
    tried = await _check(institution, account)
    async with write_alone(context.pool) as connection:
        await account_store.note_certificates(connection, account.id, institution.traits.certificates)
        why_sealed = await find_why_sealed(context, connection, account.id)
        sending = None if why_sealed else await _open_sending(context, connection, open_institution, account)
        if sending is not None:
            await _note_sending(connection, account, sending)
    tried += _check_ends(institution.traits.certificates, context.clock.real_now())
    if why_sealed:
        tried.append(PermissionTried(name="send: key", is_given=False, explanation=why_sealed))
    if sending is not None:
        tried += [structs.replace(one, name=f"send: {one.name}") for one in await _check(sending, account)]
    return tried


async def _check(institution: Institution, account: InstitutionAccount) -> list[PermissionTried]:
    try:
        return list(await institution.check(account.keys))
    except InstitutionUnavailable as error:
        raise explain_to_operator(error) from error
    finally:
        await institution.close()


def explain_to_operator(error: InstitutionUnavailable, so: str = "") -> errors.Refusal | errors.ServiceUnavailable:
    """Return the error of an operator's verb: a temporary failure, or a permanently refused credential."""
    if error.is_refusal:
        return errors.BadRequest(f"the institution refuses the credential{so}: {error.reason}")
    return errors.ServiceUnavailable(f"the institution gave no answer{so}: {error.reason}")


def _check_ends(certificates: Sequence[AccountCertificate], now: datetime) -> list[PermissionTried]:
    return [
        PermissionTried(
            name=f"certificate {one.part}",
            is_given=one.ends_at > now,
            explanation=describe_end(one.ends_at, now) or f"ends at {one.ends_at.isoformat()}",
        )
        for one in certificates
    ]


async def _open_sending(
    context: Operator, connection: Connection, open_institution: OpenInstitution, account: InstitutionAccount
) -> Institution | None:
    """Make the client with the sending credential; ``None`` without one, or without the key to open it here."""
    if context.sending_box is None:
        return None
    credential = await read_sending_credential(connection, context.sending_box, account.id)
    return None if credential is None else open_institution(account, credential)


async def _note_sending(connection: Connection, account: InstitutionAccount, sending: Institution) -> None:
    own = [structs.replace(one, part="sending") for one in sending.traits.certificates if one.part == "receiving"]
    await account_store.note_certificates(connection, account.id, own, of_sending=True)
