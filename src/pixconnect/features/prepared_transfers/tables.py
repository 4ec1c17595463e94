"""The append-only tables of prepared and of initiated transfers."""

from typing import Final

import msgspec

from pixconnect.features.prepared_transfers.rules import InitiatedTransfer, PreparedTransfer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.proof import Rule
from pixconnect.kernel.tables.lookup import FindOne, counted_page
from pixconnect.kernel.tables.table import Table, or_null

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Party).decode

PREPARED_TRANSFER: Final = Table(
    "prepared_transfer",
    PreparedTransfer,
    """
    holder_id bigint, external_id text, initiation_type text, amount_cents bigint, key text, key_type text,
    br_code text, counterparty jsonb, payer_message text, rejected_as text, created_at timestamptz
    """,
    key=("external_id", "holder_id"),
    read={"counterparty": (or_null(_decode), "counterparty")},
    write={"counterparty": lambda prepared: prepared.counterparty and _encode(prepared.counterparty).decode()},
)

insert: Final = PREPARED_TRANSFER.insert_new
"""Insert it, unless the holder has used its name for another."""

find: Final = FindOne[PreparedTransfer, int, str](PREPARED_TRANSFER, "where external_id = $2 and holder_id = $1")

read_page: Final = counted_page(PREPARED_TRANSFER, "external_id")
"""Read a page of a holder's, newest first; they exist in sandboxes only."""

INITIATED_TRANSFER: Final = Table(
    "initiated_transfer",
    InitiatedTransfer,
    "end_to_end_id text, holder_id bigint, key text, key_type text, counterparty jsonb, created_at timestamptz",
    key=("end_to_end_id",),
    read={"counterparty": (_decode, "counterparty")},
    write={"counterparty": lambda initiated: _encode(initiated.counterparty).decode()},
)

find_initiated: Final = FindOne[InitiatedTransfer, int, str](INITIATED_TRANSFER, "where end_to_end_id = $2 and holder_id = $1")

RULES: Final = (
    Rule(
        name="transfer_is_as_confirmed",
        says="a confirmed or prepared transfer was sent unchanged, by the holder that initiated it",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id] as ids,
                concat_ws(' ', initiated.holder_id, initiated.end_to_end_id, prepared.amount_cents, prepared.initiation_type)
                    as expected,
                format('%s %s %s %s', transfer.holder_id, transfer.external_id, transfer.amount_cents,
                    transfer.initiation_type) as found,
                transfer.created_at as since
            from {transfers} as transfer
            left join initiated_transfer as initiated using (end_to_end_id)
            left join prepared_transfer as prepared
                on prepared.external_id = transfer.external_id and prepared.holder_id = transfer.holder_id
            where direction = 'OUT' and (
                initiated.holder_id is not null and (transfer.holder_id, transfer.external_id, transfer.initiation_type)
                    <> (initiated.holder_id, initiated.end_to_end_id, 'KEY')
                or (transfer.amount_cents, transfer.initiation_type) <> (prepared.amount_cents, prepared.initiation_type)
            )
        """,
        meaning="the transfer, or its confirmed or prepared form, was written by hand",
        todo="look at it with `pixconnect find ID`, and let the rail's statement of its day decide",
    ),
)
