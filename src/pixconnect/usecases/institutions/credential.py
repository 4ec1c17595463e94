"""The credential of an account at an institution: sealed where it is kept, opened where it is used."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.domain.institutions.account import Credential, InstitutionAccount, account_seal
from pixconnect.domain.institutions.institution import Institution
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.institutions import account as account_store

OpenInstitution = Callable[[InstitutionAccount, Credential], Institution]
"""Makes what speaks to an account; it connects when it is first asked something."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Credential).decode


def seal_credential(box: SecretBox, credential: Credential, account_id: int) -> bytes:
    return box.seal(_encode(credential), account_seal(account_id))


async def read_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """What reads and receives; ``None`` if there is no such account."""
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None else _decode(box.open(sealed.receiving, account_seal(account_id)))
