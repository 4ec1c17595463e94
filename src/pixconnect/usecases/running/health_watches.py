"""What the health check and a load balancer's probe look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from pixconnect.domain.frame import errors
from pixconnect.foundation.pool import Pool
from pixconnect.usecases.frame.cells import ByCell, Cells, UnreachableCells
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.money import unresolved
from pixconnect.usecases.running import health, installation, partition
from pixconnect.usecases.running.health import Check, HealthWatch
from pixconnect.usecases.running.standby import Standby, check_standby
from pixconnect.usecases.webhooks import delivery, feed

CELL_TIMEOUT_S: Final = 1.0
"""For each check of another cell: shorter than ``CHECK_TIMEOUT_S``, so that what hangs is named."""
NO_CERTIFICATES: Final[Mapping[str, datetime]] = MappingProxyType({})


def watch_health(
    context: Context,
    keyring: Keyring,
    *,
    lacks_proxies: bool = False,
    certificates: Mapping[str, datetime] = NO_CERTIFICATES,
    standby: Standby | None = None,
    find_more: Callable[[], Mapping[str, Check]] = dict,
) -> HealthWatch:
    """What health looks at.

    Args:
        context: The home cell's.
        keyring: That cell's.
        lacks_proxies: Whether no proxy is trusted.
        certificates: When those end that the settings name, by what they are for.
        standby: Where there is one.
        find_more: What else is looked at, asked anew each time.
    """
    policy = context.policy
    # A sandbox is everybody's own: nothing in its settings is dangerous.
    live = (
        {}
        if policy.is_sandbox
        else dict(
            settings=partial(
                health.check_settings, context.clock, lacks_proxies=lacks_proxies, certificates=certificates
            ),
            institutions=partial(health.check_accounts, context),
        )
    )
    elsewhere = {} if standby is None else dict(standby=partial(check_standby, standby))
    return HealthWatch({**_checks_of_cell(context, keyring), **elsewhere, **live}, context.clock, find_more=find_more)


def _checks_of_cell(context: Context, keyring: Keyring) -> dict[str, Check]:
    read_waiting = partial(unresolved.read_waiting, context)
    return {
        "database": partial(health.check_database, context.pool),
        "disk": partial(health.check_disk, context.pool),
        "clock": partial(health.check_clock, context.pool, context.clock),
        "rail": partial(
            health.check_rail,
            context.rail,
            read_waiting,
            has_rail=context.policy.has_rail,
            institutions=context.institutions,
        ),
        "webhooks": partial(health.check_webhooks, partial(delivery.read_oldest_due, context), context.clock),
        "signing_key": partial(health.check_signing_key, keyring),
        "partitions": partial(partition.check_partitions, context.pool),
        "database_loss": partial(installation.check_losses, context.pool),
        "books": partial(installation.check_books, context.pool),
        "feed": partial(feed.check_feed, context.pool, context.clock),
    }


class CellHealth:
    """The check ``cells``: whatever is wrong with a cell beside the home cell, which harms its holders alone."""

    def __init__(self, contexts: Cells, keyrings: ByCell[Keyring], away: UnreachableCells) -> None:
        self._contexts = contexts
        self._keyrings = keyrings
        self._away = away
        self._watches: dict[int, tuple[Context, HealthWatch]] = {}

    def find_check(self) -> Mapping[str, Check]:
        """Where there is one cell there is no such check."""
        return {} if self._contexts.is_alone else {"cells": self._check}

    async def _check(self) -> None:
        others = [(number, self._watch(number, context)) for number, context in self._contexts.others()]
        found = await asyncio.gather(*(watch.read_health() for _, watch in others))
        wrong = [f"cell {number} is not served by this process" for number in sorted(self._away.numbers)]
        for (number, _), told in zip(others, found, strict=True):
            bad = {name: each.error for name, each in told.checks.items() if each.error}
            # What else is wrong without its database is wrong for that reason.
            named = ["database"] if "database" in bad else bad
            wrong += [f"cell {number}: {name}: {bad[name]}" for name in named]
        if wrong:
            raise errors.ServiceUnavailable("; ".join(wrong))

    def _watch(self, number: int, context: Context) -> HealthWatch:
        watched, watch = self._watches.get(number, (None, None))
        # One that was opened again has another context: the pool of the former one is closed.
        if watch is None or watched is not context:
            watch = HealthWatch(_checks_of_cell(context, self._keyrings.at(number)), context.clock, CELL_TIMEOUT_S)
            self._watches[number] = context, watch
        return watch


def watch_readiness(context: Context, keyring: Keyring, access_pool: Pool) -> HealthWatch:
    """The check for load balancers: only what another process may have in order while this one has not."""
    return HealthWatch(
        {
            # By the connection for access, which is free when callers hold all others: a busy process is ready.
            "database": partial(health.check_database, access_pool),
            "disk": partial(health.check_disk, access_pool),
            "clock": partial(health.check_clock, access_pool, context.clock),
            "signing_key": partial(health.check_signing_key, keyring),
        },
        context.clock,
    )
