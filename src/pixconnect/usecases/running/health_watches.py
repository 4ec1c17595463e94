"""What the health check and a load balancer's probe look at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from pixconnect.foundation.pool import Pool
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.money import unresolved
from pixconnect.usecases.running import health, installation, partition
from pixconnect.usecases.running.health import Check, HealthWatch
from pixconnect.usecases.running.standby import Standby, check_standby
from pixconnect.usecases.webhooks import delivery, feed

NO_CERTIFICATES: Final[Mapping[str, datetime]] = MappingProxyType({})


def watch_health(
    context: Context,
    keyring: Keyring,
    *,
    lacks_proxies: bool = False,
    certificates: Mapping[str, datetime] = NO_CERTIFICATES,
    standby: Standby | None = None,
) -> HealthWatch:
    """What health looks at.

    Args:
        lacks_proxies: Whether no proxy is trusted.
        certificates: When those end that the settings name, by what they are for.
        standby: Where there is one.
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
    return HealthWatch({**_list_checks(context, keyring), **elsewhere, **live}, context.clock)


def _list_checks(context: Context, keyring: Keyring) -> dict[str, Check]:
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
