"""All rules, in the order in which a run looks at them."""

from __future__ import annotations

from typing import Final, get_args

from pixconnect.domain.proof.rule import Rule, Subject
from pixconnect.feature import gather
from pixconnect.store.proof.charges import CHARGES, TOTALS
from pixconnect.store.proof.events import EVENTS
from pixconnect.store.proof.ledger import LEDGER, POSTINGS
from pixconnect.store.proof.orders import ORDERS, RETURNED
from pixconnect.store.proof.rail import RAIL
from pixconnect.store.proof.reports import REPORTS

_KERNEL: Final = (*LEDGER, *POSTINGS, *ORDERS, *RETURNED, *CHARGES, *TOTALS, *EVENTS, *REPORTS, *RAIL)
# The tables first, and then others' servers, which take longer.
RULES: Final = tuple(
    sorted((*_KERNEL, *gather("rules", Rule)), key=lambda rule: get_args(Subject).index(rule.of)),
)
