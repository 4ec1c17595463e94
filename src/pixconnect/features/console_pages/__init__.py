"""Console pages without a feature of their own."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    pages=(
        "features.console_pages.figures:OVERVIEW_ROUTES",
        "features.console_pages.payments:ROUTES",
        "features.console_pages.ledger:ROUTES",
        "features.console_pages.figures:ROUTES",
        "features.console_pages.days:ROUTES",
        "features.console_pages.audit_trail:ROUTES",
    ),
    menu=("features.console_pages.days:MENU", "features.console_pages.audit_trail:MENU"),
    overview=("features.console_pages.days:OVERVIEW", "features.console_pages.audit_trail:OVERVIEW"),
)
