"""Callbacks of institutions: they wake the account's reader, in the worker that leases it.

A false one costs a comparison and nothing else: no statement, and the same answer. Concurrent callbacks for one account are
passed on once; a lost one costs the time until the next regular reading.
"""

from __future__ import annotations

import hmac
from typing import Final

from pixconnect.features.institutions.rules.pending_call import APART_S, choose_paces, digest_secret
from pixconnect.features.institutions.tables import webhook as webhook_store
from pixconnect.features.institutions.tables.webhook import ActiveCallback
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.platform.base import errors
from pixconnect.platform.notifier import CALLBACK_CHANNEL, EventNotifier
from pixconnect.platform.shared_look import SharedLook

_NOBODYS: Final = digest_secret("")


class Callbacks:
    """The callbacks of all accounts, as known to one process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._callbacks: dict[str, ActiveCallback] = {}
        self._fresh_until_s = float("-inf")
        # However many calls come, the table is read once a second.
        self._looks = SharedLook(self._look, "look at callbacks")
        self._notifiers: dict[str, EventNotifier] = {}

    async def take(self, name: str, secret: str, body: bytes, *, has_certificate: bool) -> bool:
        """Wake an account's reader, if the secret is the account's; return whether it is.

        Raises:
            Forbidden: The account's institution presents a client certificate, and this caller did not.
        """
        if self._context.clock.monotonic_s() >= self._fresh_until_s:
            await self._looks.look()
        callback = self._callbacks.get(name)
        is_true = hmac.compare_digest(digest_secret(secret), _NOBODYS if callback is None else callback.digest)
        if callback is None or not is_true:
            return False
        # After the secret: a caller without it learns nothing about the account.
        if callback.needs_certificate and not has_certificate:
            raise errors.Forbidden("client certificate: this address requires one")
        payload = " ".join([str(callback.institution_id), *choose_paces(body)])
        notifier = self._notifiers.setdefault(
            payload, EventNotifier(self._context.pool, APART_S, CALLBACK_CHANNEL, payload)
        )
        notifier.notify()
        return True

    async def _look(self) -> None:
        now_s = self._context.clock.monotonic_s()
        self._callbacks = {callback.name: callback for callback in await webhook_store.list_read(self._context.pool)}
        self._fresh_until_s = now_s + IN_FORCE_AFTER_S
