"""The statement and its files (CSV, OFX, camt.053)."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    scope_parts=(("ledger.read", "the statement"),),
    sections=("features.statements.api:SECTIONS",),
    verbs=(
        Verb(*("integrator", "balance", "features.statements.cli:balance"), "Print the account's balances."),
        Verb(
            *("integrator", "statement", "features.statements.cli:statement"),
            "Print the account's history, or write it to a file.",
        ),
    ),
)
