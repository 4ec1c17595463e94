"""All pages of the console, as one table."""

from typing import Final

from pixconnect.console import (
    audit_trail,
    days,
    figures,
    finding,
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
    *payments.INFRACTION_ROUTES,
    *finding.ROUTES,
    *days.ROUTES,
    *audit_trail.ROUTES,
    *signing_in.ROUTES,
)
