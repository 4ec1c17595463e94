"""The credential of an account at an institution: sealed where kept, opened where used; and when its certificates end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken, SecretBox
from pixconnect.domain.institutions.account import Credential, InstitutionAccount, account_seal, find_shared_member
from pixconnect.domain.institutions.account_file import AccountDescription
from pixconnect.domain.institutions.certificate import EndingCertificate, find_ending
from pixconnect.domain.institutions.institution import Institution, OpenAccount
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import certificate as certificate_store
from pixconnect.store.institutions.account import SealedCredentials
from pixconnect.usecases.frame.operator import OperatorContext

OpenInstitution = Callable[[InstitutionAccount, Credential], Institution]
"""Makes what speaks to an account; it connects when it is first asked something."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Credential).decode


def seal_credentials(
    box: SecretBox, sending_box: SecretBox | None, said: AccountDescription, account_id: int
) -> SealedCredentials:
    """Seal the receiving credential for all processes, and the sending one under a key that what serves the API has not.

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
    """What sends; ``None`` where the account has none of its own."""
    sealed = await account_store.read_sealed(connection, account_id)
    if sealed is None or sealed.sending is None:
        return None
    return _decode(box.open(sealed.sending, account_seal(account_id, "sending")))


async def find_why_sealed(context: OperatorContext, connection: Connection, account_id: int) -> str | None:
    """Why this process cannot open what sends; ``None`` if it can, or the account has nothing of its own that sends."""
    if context.sending_box is not None:
        try:
            await read_sending_credential(connection, context.sending_box, account_id)
        except SealBroken:
            # A backup has what was sealed then, and the key may have been replaced since.
            return "PIXCONNECT_SENDING_SECRET_KEY is not the key that it was sealed with"
        return None
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None or sealed.sending is None else "PIXCONNECT_SENDING_SECRET_KEY is not set here"


async def read_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """What reads and receives; ``None`` if there is no such account."""
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None else _decode(box.open(sealed.receiving, account_seal(account_id)))


async def open_credential(context: OperatorContext, account_id: int) -> Credential:
    """As ``read_credential``; ``NotFound`` if there is no such account."""
    async with context.pool.acquire() as connection:
        credential = await read_credential(connection, context.secret_box, account_id)
    if credential is None:
        raise errors.NotFound(f"institution: there is no account {account_id}")
    return credential


async def open_for_operator(
    context: OperatorContext, open_institution: OpenInstitution, account: InstitutionAccount
) -> Institution:
    return open_institution(account, await open_credential(context, account.id))


async def note_certificates(connection: Connection | Pool, opened: OpenAccount) -> None:
    """Note those by which an account is reached; where nothing has changed nothing is written."""
    await certificate_store.note(connection, opened.account.id, opened.institution.traits.certificates)


async def list_ending(connection: Connection | Pool, now: datetime) -> list[EndingCertificate]:
    """Those that end soon, the first one first."""
    return find_ending(await certificate_store.list_all(connection), now)


async def refuse_same_account(
    connection: Connection, box: SecretBox, account: InstitutionAccount, client: Credential
) -> None:
    """Refuse an account that is, by a key, its number or its client, another one here that is not closed.

    Two accounts here that are one there would count its money twice, whichever reads it first.
    """
    for other in await account_store.list_all(connection):
        if other.id == account.id or other.state == "closed":
            continue
        shared = find_shared_member(account, client, other, await _read(connection, box, other))
        if shared is not None:
            raise errors.BadRequest(f"{shared} is on the account {other.name}: a bank account is added once")


async def _read(connection: Connection, box: SecretBox, account: InstitutionAccount) -> Credential:
    try:
        return errors.require(await read_credential(connection, box, account.id), "what is listed is there")
    except SealBroken:
        return Credential()  # health tells of it; the numbers and keys are compared all the same
