"""Looks after accounts at institutions: reads what came in, asks about charges that are being opened, lets charges expire.

Each account has a task of its own, in the worker that has its slot: one that hangs or refuses holds nobody else back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import SLOTS_COUNT
from pixconnect.domain.institutions.institution import Institution, InstitutionUnavailable, OpenAccount
from pixconnect.domain.money.rail import Rail, RailUnavailable
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.account_context import at_account
from pixconnect.usecases.institutions.statement_sweep import sweep_statement
from pixconnect.usecases.institutions.sweep import expire_there, sweep_due
from pixconnect.usecases.money.charge_opening import go_on_opening
from pixconnect.worker.leases import SlotLeases

LOOK_EVERY_S: Final = 1.0
AWAY_S: Final = (2.0, 5.0, 15.0, 30.0, 60.0)
"""The pauses after an institution gave no answer, the last one again and again."""

OpenRail = Callable[[Institution], Rail]

_AWAY = (*DATABASE_FAILED, errors.PixConnectError, RailUnavailable)
_log = structlog.get_logger(__name__)


class AccountReaders:
    """One task for each active account whose slot this worker has."""

    def __init__(self, context: Context, leases: SlotLeases, open_rail: OpenRail) -> None:
        self._context = context
        self._leases = leases
        self._open_rail = open_rail
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self._look()
                except _AWAY as error:
                    _log.warning("accounts wait", reason=type(error).__name__)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        active = {account.id for account in await self._context.institutions.list_active()}
        ours = {account_id for account_id in active if account_id % SLOTS_COUNT in self._leases.held}
        for account_id in self._tasks.keys() - ours:
            self._tasks.pop(account_id).cancel()
        for account_id in ours:
            task = self._tasks.get(account_id)
            if task is None or task.done():
                self._tasks[account_id] = asyncio.create_task(self._keep(account_id), name=f"account {account_id}")

    async def _keep(self, account_id: int) -> None:
        failed_count, context, known = 0, self._context, None
        while True:
            opened = await self._context.institutions.find(account_id)
            if opened is None:
                return
            if opened is not known:
                known = opened
                context = at_account(self._context, opened.account, self._open_rail(opened.institution))
            try:
                await look_after(context, opened)
                failed_count = 0
            except InstitutionUnavailable as error:
                failed_count += 1
                _log.warning("an institution gave no answer", institution=opened.account.name, reason=error.reason)
            except _AWAY as error:
                failed_count += 1
                _log.warning("an account waits", institution=opened.account.name, reason=type(error).__name__)
            except Exception as error:  # noqa: BLE001  a defect that one account meets must not stop the others
                failed_count += 1
                _log.exception("an account met a defect", institution=opened.account.name, reason=type(error).__name__)
            await asyncio.sleep(AWAY_S[min(failed_count, len(AWAY_S)) - 1] if failed_count else LOOK_EVERY_S)


async def look_after(context: Context, opened: OpenAccount) -> None:
    """Do once what is due at an account; ``context`` is the account's.

    Raises:
        InstitutionUnavailable: What was recorded until then stays.
    """
    await go_on_opening(context, opened)
    await sweep_due(context, opened.institution)
    await expire_there(context, opened.institution)
    await sweep_statement(context, opened.account, opened.institution)
