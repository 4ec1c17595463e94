"""Money that an institution moves or blocks by itself: fees, wires, blocks, suspect credits."""

from typing import Final

from pixconnect.kernel.feature import Event, Feature, Verb

FEATURE: Final = Feature(
    report_takers=("features.movements.service:REPORT_TAKERS",),
    suspect_credits=("features.movements.held_blocks:SUSPECT_CREDITS",),
    order_rules=("features.movements.held_blocks:ORDER_RULES",),
    claims=("features.movements.held_blocks:CLAIMS",),
    verbs=(Verb("operator", "block", "features.movements.cli:app", "Money that institutions keep holders from spending."),),
    rules=("features.movements.checks:BLOCKS",),
    rule_parts=("features.movements.checks:PARTS",),
    recipes=("features.movements.cli:RECIPES",),
    sections=("features.movements.api:SECTIONS",),
    events=(
        Event(
            "transfer.in.held",
            "transfer",
            "A payment to you has come, and your institution holds it as suspect: do not deliver yet. "
            "`transfer.in.confirmed`, and of a charge `qrcode.approved`, announce its release; "
            "`transfer.in.error` its return.",
            '`POST /sandbox/v1/payments` with `"suspect": "release"` or `"return"`',
            is_own=True,
            status="PROCESSING",
        ),
    ),
    text_columns="""
block,kind reference line_id source state,none
block_step,kind,none
""",
)
