"""Lots of charges with a due date."""

from typing import Final

from pixconnect.kernel.feature import Feature, Scope

FEATURE: Final = Feature(
    deadlines=("features.lots.tables:DEADLINES",),
    members=("features.lots.worker:MEMBERS",),
    rules=("features.lots.checks:LOTS",),
    charge_batches=("features.lots.item:LOTS",),
    unfinished=("features.lots.tables:UNFINISHED",),
    scopes=(
        Scope("lotecobv.read", "Pix API: reading batches of charges with a due date", is_standard=True),
        Scope("lotecobv.write", "Pix API: making and changing batches of charges with a due date", is_standard=True),
    ),
    standard_operations=("features.lots.api:OPERATIONS",),
    standard_words=("features.lots.api:WORDS",),
    text_columns="""
charge_lot,description,client
lot_item,txid status,none
lot_item,wanted refusal,unmade
lot_request,asked,unmade
lot_request,asked_by,asked
""",
)
