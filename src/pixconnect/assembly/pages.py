"""All pages of the console, and its menu."""

from typing import Final

from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.visit import MenuEntry
from pixconnect.features.identity import pages as signing_in
from pixconnect.kernel.feature import gather

ROUTES: Final[tuple[PageRoute, ...]] = (*gather("pages", PageRoute), *signing_in.ROUTES)
_PATHS: Final = {route.path for route in ROUTES}


_ENTRIES: Final = (
    MenuEntry(section="payments", path="/charges", text="Charges"),
    MenuEntry(section="payments", path="/transfers", text="Transfers"),
    MenuEntry(section="payments", path="/refunds", text="Refunds"),
    MenuEntry(section="webhooks", path="/events", text="Events"),
    MenuEntry(section="webhooks", path="/deliveries", text="Deliveries"),
    MenuEntry(section="webhooks", path="/endpoints", text="Endpoints"),
    MenuEntry(section="account", path="/ledger", text="Ledger"),
    MenuEntry(section="account", path="/figures", text="Figures"),
    MenuEntry(section="account", path="/sandbox", text="Sandbox", is_shown=lambda visit: visit.parts.is_sandbox),
    MenuEntry(section="account", path="/holders", text="Holders", is_shown=lambda visit: visit.who.kind != "holder"),
    MenuEntry(section="audit", path="/audit", text="Audit"),
    *gather("menu", MenuEntry),
)
MENU: Final[tuple[MenuEntry, ...]] = tuple(entry for entry in _ENTRIES if entry.path in _PATHS)
"""Without the pages of features that were removed."""
