"""The accounts at institutions as one process has them open: each read again once an operator has changed it.

A change is known within a second, as elsewhere (``IN_FORCE_AFTER_S``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.domain.identity.access import IN_FORCE_AFTER_S
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.institution import OpenAccount
from pixconnect.foundation.pool import Pool
from pixconnect.store.institutions import account as account_store
from pixconnect.usecases.institutions.credential import OpenInstitution, read_credential

_log = structlog.get_logger(__name__)


class OpenAccounts:
    """Opens accounts when they are first needed; connections of one are its own."""

    def __init__(
        self,
        pool: Pool,
        secret_box: SecretBox,
        open_institution: OpenInstitution,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._secret_box = secret_box
        self._open_institution = open_institution
        self._monotonic_s = monotonic_s
        self._fresh_until_s = float("-inf")
        self._accounts: dict[int, InstitutionAccount] = {}
        self._opened: dict[int, OpenAccount] = {}
        self._opening = asyncio.Lock()

    async def list_all(self) -> Sequence[InstitutionAccount]:
        await self._look()
        return list(self._accounts.values())

    async def list_active(self) -> Sequence[InstitutionAccount]:
        return [account for account in await self.list_all() if account.state == "active"]

    async def find(self, account_id: int) -> OpenAccount | None:
        """An account that is active; ``None`` if it is paused, closed or unknown."""
        await self._look()
        account = self._accounts.get(account_id)
        if account is None or account.state != "active":
            return None
        opened = self._opened.get(account_id)
        if opened is not None and opened.account.revision == account.revision:
            return opened
        async with self._opening:
            return await self._open(account)

    async def _open(self, account: InstitutionAccount) -> OpenAccount | None:
        before = self._opened.get(account.id)
        if before is not None and before.account.revision == account.revision:
            return before
        credential = await read_credential(self._pool, self._secret_box, account.id)
        if credential is None:
            return None
        try:
            opened = OpenAccount(account=account, institution=self._open_institution(account, credential))
        except errors.BadRequest as error:
            # It is the operator's to mend, and no caller's fault; callers are not told which file is missing.
            _log.error("an account cannot be opened", institution=account.name, reason=error.message)
            raise errors.ServiceUnavailable("the account at the institution cannot be opened now") from error
        self._opened[account.id] = opened
        if before is not None:
            await before.institution.close()
        return opened

    async def close(self) -> None:
        for opened in self._opened.values():
            await opened.institution.close()
        self._opened.clear()

    def forget(self) -> None:
        """Look again before the next use: a loss may have paused them."""
        self._fresh_until_s = float("-inf")

    async def _look(self) -> None:
        now_s = self._monotonic_s()
        if now_s >= self._fresh_until_s:
            found = await account_store.list_all(self._pool)
            self._accounts = {account.id: account for account in found}
            self._fresh_until_s = now_s + IN_FORCE_AFTER_S
