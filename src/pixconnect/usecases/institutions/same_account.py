"""A bank account is added once: two accounts here that are one there would count its money twice, whichever reads it first."""

from __future__ import annotations

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken, SecretBox
from pixconnect.domain.institutions.account import Credential, InstitutionAccount, find_shared_member
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account as account_store
from pixconnect.usecases.institutions.credential import read_credential


async def refuse_same_account(
    connection: Connection, box: SecretBox, account: InstitutionAccount, client: Credential
) -> None:
    """Refuse an account that is, by a key, its number or its client, another one here that is not closed."""
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
