"""All rules, in the order in which a run looks at them."""

from __future__ import annotations

from typing import Final

from pixconnect.store.proof.audit import AUDIT
from pixconnect.store.proof.blocks import ADJUSTMENTS, BLOCKS
from pixconnect.store.proof.chain import AUDIT_CHAIN, CHAIN
from pixconnect.store.proof.charges import CHARGES, TOTALS
from pixconnect.store.proof.events import EVENTS
from pixconnect.store.proof.guards import GUARDS
from pixconnect.store.proof.institutions import ACCOUNTS, INSTITUTIONS
from pixconnect.store.proof.ledger import LEDGER, POSTINGS
from pixconnect.store.proof.lines import STATEMENT_LINES
from pixconnect.store.proof.orders import ORDERS, RETURNED
from pixconnect.store.proof.rail import RAIL
from pixconnect.store.proof.reports import REPORTS

# Cheap ones first: their findings appear while the others still run.
RULES: Final = (
    *LEDGER,
    *CHAIN,
    *POSTINGS,
    *ADJUSTMENTS,
    *BLOCKS,
    *STATEMENT_LINES,
    *ORDERS,
    *RETURNED,
    *CHARGES,
    *INSTITUTIONS,
    *TOTALS,
    *EVENTS,
    *REPORTS,
    *AUDIT,
    *AUDIT_CHAIN,
    *GUARDS,
    *RAIL,
    *ACCOUNTS,
)
