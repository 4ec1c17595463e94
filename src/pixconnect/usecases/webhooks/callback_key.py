"""The keys of institutions that publish what their callbacks are signed with; each is made when it is first wanted."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Final

from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.webhooks.callback_key import CallbackKey, callback_key_seal
from pixconnect.foundation.rsa_key import RsaSigner, make_rsa_key
from pixconnect.store.webhooks import callback_key as callback_key_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.lone_write import write_alone

_KEPT_MAX: Final = 8


async def list_callback_keys(context: Context, profile: str) -> list[CallbackKey]:
    """All that callbacks may be signed with; the first signs now."""
    found = await callback_key_store.list_of_profile(context.pool, profile)
    if found and _open_key(context, found[0]) is not None:
        return found
    await open_callback_signer(context, profile)
    return await callback_key_store.list_of_profile(context.pool, profile)


async def open_callback_signer(context: Context, profile: str) -> RsaSigner:
    """Sign with the newest key, or with a new one where that was sealed with a secret key that is gone.

    Two processes may each make one at first: both are published, so either is believed.
    """
    for key in (await callback_key_store.list_of_profile(context.pool, profile))[:1]:
        private_der = _open_key(context, key)
        if private_der is not None:
            return load_signer(private_der)
    made = await asyncio.to_thread(make_rsa_key)
    sealed = context.secret_box.seal(made.private_der, callback_key_seal(made.identifier))
    async with write_alone(context.pool) as connection:
        key = CallbackKey(
            key_identifier=made.identifier,
            profile=profile,
            public_pem=made.public_pem,
            private_sealed=sealed,
            created_at=context.clock.real_now(),
        )
        await callback_key_store.insert(connection, key)
    return load_signer(made.private_der)


def _open_key(context: Context, key: CallbackKey) -> bytes | None:
    """The private key; ``None`` where it was sealed with a secret key that is gone."""
    try:
        return context.secret_box.open(key.private_sealed, callback_key_seal(key.key_identifier))
    except SealBroken:
        return None


# To load one takes a millisecond, and each callback is signed.
load_signer = lru_cache(_KEPT_MAX)(RsaSigner)
