"""The accounts at institutions that one process has open: each is read again after an operator's change.

A change is visible within a second, as elsewhere (``IN_FORCE_AFTER_S``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog
from msgspec import structs

from pixconnect.features.institutions.accounts import ACCOUNT
from pixconnect.features.institutions.credit import AccountSource
from pixconnect.features.institutions.rules.account import UNNAMED_ISPB, InstitutionAccount, abilities_of
from pixconnect.features.institutions.rules.institution import (
    InstitutionUnavailable,
    NotSent,
    OpenAccount,
    SendAnswer,
    Sender,
)
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentReturns
from pixconnect.features.institutions.service.credential import (
    OpenInstitution,
    read_credential,
    read_sending_credential,
)
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.credit_source import CREDIT_SOURCE
from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.kernel.rules.rail import Rail
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.pool import Pool

_NO_KEY: Final = "this process has no PIXCONNECT_SENDING_SECRET_KEY for the credential that sends"
_OTHER_KEY: Final = "PIXCONNECT_SENDING_SECRET_KEY is not the key that the credential that sends was sealed with"

_log = structlog.get_logger(__name__)


class NoSender:
    """For an account whose sending credential this process cannot open: no other sender replaces it."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def sent_returns(self) -> SentReturns | None:
        return None

    async def send(self, pix: OutgoingPix) -> SendAnswer:
        return NotSent(reason=self._reason)

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        raise InstitutionUnavailable(self._reason)

    async def close(self) -> None:
        return None


class OpenAccounts:
    """Opens accounts on first use; each has separate connections."""

    def __init__(
        self,
        pool: Pool,
        secret_box: SecretBox,
        open_institution: OpenInstitution,
        monotonic_s: Callable[[], float],
        sending_box: SecretBox | None = None,
    ) -> None:
        self._pool = pool
        self._secret_box = secret_box
        self._open_institution = open_institution
        self._monotonic_s = monotonic_s
        self._sending_box = sending_box
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
        opened = await self.find_read(account_id)
        return None if opened is None or opened.account.state != "active" else opened

    async def find_receiving(self, account_id: int) -> OpenAccount | None:
        opened = await self.find_read(account_id)
        return None if opened is None or not opened.account.may_receive else opened

    async def find_read(self, account_id: int) -> OpenAccount | None:
        await self._look()
        account = self._accounts.get(account_id)
        if account is None or not account.is_read:
            return None
        opened = self._opened.get(account_id)
        if opened is not None and opened.account.revision == account.revision:
            return opened
        async with self._opening:
            return await self._open(account)

    async def _open(self, account: InstitutionAccount) -> OpenAccount | None:
        # Another caller may have opened it while this one waited for the lock.
        before = self._opened.get(account.id)
        if before is not None and before.account.revision == account.revision:
            return before
        credential = await read_credential(self._pool, self._secret_box, account.id)
        if credential is None:
            return None
        try:
            opened = OpenAccount(
                account=account,
                institution=self._open_institution(account, credential),
                own_sender=await self._open_sender(account),
            )
        except errors.BadRequest as error:
            # The operator must repair it, and no caller is at fault; callers do not learn which file is missing.
            _log.error("an account cannot be opened", institution=account.name, reason=error.message)
            raise errors.ServiceUnavailable("the account at the institution cannot be opened now") from error
        # Replaced before the old one is closed, so that new callers get this one.
        self._opened[account.id] = opened
        if before is not None:
            await _close(before)
        return opened

    async def _open_sender(self, account: InstitutionAccount) -> Sender | None:
        """Open the sender, if the account has a separate credential for it; ``None`` if it shares the other one."""
        sealed = await account_store.read_sealed(self._pool, account.id)
        if sealed is None or sealed.sending is None:
            return None
        if self._sending_box is None:
            return NoSender(_NO_KEY)
        try:
            credential = await read_sending_credential(self._pool, self._sending_box, account.id)
            return None if credential is None else self._open_institution(account, credential)
        except (SealBroken, errors.BadRequest) as error:
            # Incoming money is read all the same.
            reason = error.message if isinstance(error, errors.BadRequest) else _OTHER_KEY
            _log.error("what sends over an account cannot be opened", institution=account.name, reason=reason)
            return NoSender(reason)

    async def close(self) -> None:
        for opened in self._opened.values():
            await _close(opened)
        self._opened.clear()

    def forget(self) -> None:
        """Read the accounts again before the next use: a loss may have paused them."""
        self._fresh_until_s = float("-inf")

    async def _look(self) -> None:
        now_s = self._monotonic_s()
        if now_s >= self._fresh_until_s:
            found = await account_store.list_all(self._pool)
            self._accounts = {account.id: account for account in found}
            self._fresh_until_s = now_s + IN_FORCE_AFTER_S


async def _close(opened: OpenAccount) -> None:
    await opened.institution.close()
    if opened.own_sender is not None:
        await opened.own_sender.close()


def at_account(context: Context, account: InstitutionAccount, rail: Rail) -> Context:
    """Return the context for one account's reports: its own rail and abilities, and the process's everything else."""
    policy = structs.replace(context.policy, abilities=abilities_of(account), has_rail=True, ispb=UNNAMED_ISPB)
    at = context.with_port(ACCOUNT, account).with_port(CREDIT_SOURCE, AccountSource.of(account))
    return structs.replace(at, policy=policy, rail=rail)
