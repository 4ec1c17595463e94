"""All rules, in the order in which a run looks at them."""

from __future__ import annotations

from typing import Final

from pixconnect.store.proof.charges import CHARGES
from pixconnect.store.proof.events import EVENTS
from pixconnect.store.proof.ledger import LEDGER
from pixconnect.store.proof.orders import ORDERS
from pixconnect.store.proof.postings import POSTINGS
from pixconnect.store.proof.returned import RETURNED
from pixconnect.store.proof.totals import TOTALS

# Cheap ones first: what they find is told while the others are still being asked.
RULES: Final = (*LEDGER, *POSTINGS, *ORDERS, *RETURNED, *CHARGES, *TOTALS, *EVENTS)
