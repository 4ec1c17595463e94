"""All pages of the console, as one table."""

from typing import Final

from pixconnect.console import (
    audit_trail,
    days,
    figures,
    finding,
    infractions,
    ledger,
    overview,
    payments,
    sandbox,
    signing_in,
    webhooks,
)
from pixconnect.console.application import PageRoute

ROUTES: Final[tuple[PageRoute, ...]] = (
    *overview.ROUTES,
    *payments.ROUTES,
    *webhooks.ROUTES,
    *ledger.ROUTES,
    *figures.ROUTES,
    *sandbox.ROUTES,
    *infractions.ROUTES,
    *finding.ROUTES,
    *days.ROUTES,
    *audit_trail.ROUTES,
    *signing_in.ROUTES,
)
