"""Puts together what speaks to accounts at institutions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pixconnect.adapters.institutions.opening import InvalidInstitutionAccount, open_institution
from pixconnect.adapters.system import SystemClock, SystemEntropy
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.domain.institutions.account import Credential, InstitutionAccount
from pixconnect.domain.institutions.institution import Institution
from pixconnect.foundation.pool import Pool
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.institutions.credential import OpenInstitution
from pixconnect.usecases.institutions.open_accounts import OpenAccounts


def make_opener(clock: SystemClock, entropy: SystemEntropy) -> OpenInstitution:
    """What opens accounts in this process; it raises ``BadRequest`` for one that is described wrongly."""

    def open_account(account: InstitutionAccount, credential: Credential) -> Institution:
        try:
            return open_institution(account, credential, clock, entropy)
        except InvalidInstitutionAccount as error:
            raise errors.BadRequest(str(error)) from None

    return open_account


@asynccontextmanager
async def open_accounts(
    pool: Pool, secret_box: SecretBox, clock: SystemClock, server: ServerWatch
) -> AsyncGenerator[OpenAccounts]:
    """The accounts of a process, each opened when it is first needed."""
    accounts = OpenAccounts(pool, secret_box, make_opener(clock, SystemEntropy()), clock.monotonic_s)
    # A loss has paused them.
    server.on_start(accounts.forget)
    try:
        yield accounts
    finally:
        await accounts.close()
