"""Transfers that are prepared first and confirmed later."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    rules=("features.prepared_transfers.tables:RULES",),
    stored_orders=("features.prepared_transfers.service:ORDERS",),
    text_columns="""
initiated_transfer,end_to_end_id key_type,none
initiated_transfer,key counterparty,played
prepared_transfer,external_id initiation_type key_type rejected_as,none
prepared_transfer,key br_code counterparty payer_message,played
""",
)
