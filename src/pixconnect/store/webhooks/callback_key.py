"""The table of keys that sign callbacks as institutions sign them that publish theirs."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.webhooks.callback_key import CallbackKey
from pixconnect.foundation.pool import Pool
from pixconnect.store.frame.table import Table

CALLBACK_KEY: Final = Table(
    "callback_key",
    CallbackKey,
    "key_identifier text, profile text, public_pem text, private_sealed bytea, created_at timestamptz",
    key=("key_identifier",),
)


insert: Final = CALLBACK_KEY.insert


async def list_of_profile(pool: Pool, profile: str) -> list[CallbackKey]:
    """Those of an institution, the newest first."""
    return await CALLBACK_KEY.find_all(pool, "where profile = $1 order by created_at desc, key_identifier", profile)
