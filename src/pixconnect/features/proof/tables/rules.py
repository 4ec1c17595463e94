"""All rules, in order of evaluation."""

from __future__ import annotations

from typing import Final, get_args

from msgspec import structs

from pixconnect.features.proof.rules import Rule, RulePart, Subject
from pixconnect.features.proof.tables.charges import CHARGES, TOTALS
from pixconnect.features.proof.tables.events import EVENTS
from pixconnect.features.proof.tables.ledger import LEDGER, POSTINGS
from pixconnect.features.proof.tables.orders import ORDERS, RETURNED
from pixconnect.features.proof.tables.reports import RAIL, REPORTS
from pixconnect.kernel.feature import gather

_KERNEL: Final = (*LEDGER, *POSTINGS, *ORDERS, *RETURNED, *CHARGES, *TOTALS, *EVENTS, *REPORTS, *RAIL)
_PARTS: Final = gather("rule_parts", RulePart)


def _with_parts(rule: Rule) -> Rule:
    if "{parts}" not in rule.broken:
        return rule
    added = "".join(f" union all {part.selects}" for part in _PARTS if part.rule == rule.name)
    return structs.replace(rule, broken=rule.broken.replace("{parts}", added))


# The tables first, and then other servers, which take longer.
RULES: Final = tuple(
    sorted(map(_with_parts, (*_KERNEL, *gather("rules", Rule))), key=lambda rule: get_args(Subject).index(rule.of))
)
