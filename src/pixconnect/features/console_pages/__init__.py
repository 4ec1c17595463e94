"""The console's pages of payments, webhooks, the ledger, figures, the sandbox, institutions' days and the audit."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    pages=(
        "features.console_pages.figures:OVERVIEW_ROUTES",
        "features.console_pages.payments:ROUTES",
        "features.console_pages.webhooks:ROUTES",
        "features.console_pages.sandbox:ROUTES",
        "features.console_pages.ledger:ROUTES",
        "features.console_pages.figures:ROUTES",
        "features.console_pages.days:ROUTES",
        "features.console_pages.audit_trail:ROUTES",
    ),
    menu=("features.console_pages.days:MENU", "features.console_pages.audit_trail:MENU"),
    overview=("features.console_pages.days:OVERVIEW", "features.console_pages.audit_trail:OVERVIEW"),
)
