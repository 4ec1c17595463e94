"""Why the network rejects an order: every reason code of the scheme's ``pacs.002``, with an explanation.

``docs/reference/spi-reject-codes.md`` has the same texts; a test compares them.

Source: SPI catalogue 5.13.1, pacs.002.spi.1.17, ``ExternalStatusReason1Code``.
"""

from collections.abc import Mapping
from typing import Final

# By our use of them; one code may have several meanings in the scheme.
ABOVE_ORIGINAL: Final = "AM09"
ACCOUNT_BLOCKED: Final = "AC06"
ACCOUNT_UNKNOWN: Final = "AC03"
FUNDS_LACKING: Final = "AM04"
NETWORK_FAILED: Final = "ED05"
NOT_SETTLED: Final = "AB03"
OTHER_AMOUNT: Final = "AM09"
OTHER_OWNER: Final = "BE01"
QR_CODE_REFUSED: Final = "BE17"
RECEIVER_FAILED: Final = "AB09"
WINDOW_CLOSED: Final = "DT05"
WRONG_CONTENTS: Final = "CH16"

REASONS: Final[Mapping[str, str]] = {
    "AB03": "The payment did not settle in time.",
    "AB09": "The receiver's institution had an error.",
    "AB11": "The institution that issued the order did not answer in time.",
    "AC03": "The receiver's branch or account is unknown or invalid.",
    "AC06": "The receiver's account is blocked.",
    "AC07": "The receiver's account is closed.",
    "AC14": "The receiver's account is of another type.",
    "AG03": "The receiver's account does not take this kind of payment.",
    "AG12": "Both accounts are in one institution: the payment must not go through the network.",
    "AG13": "A refund cannot be refunded.",
    "AGNT": "The direct participant does not settle for the payer's institution.",
    "AM01": "The amount is zero.",
    "AM02": "The amount is above what the receiver's account may be credited with.",
    "AM04": "The payer's institution has too little money in the network.",
    "AM09": "The amount is not the one expected, or a refund is above its original.",
    "AM12": "The parts of the amount do not add up.",
    "AM18": "The number of orders in the message is wrong.",
    "AM23": "The taxes exceed the amount.",
    "BE01": "The tax id is not that of the account's owner.",
    "BE05": "The initiator is not registered.",
    "BE15": "The transaction identification is missing or wrong.",
    "BE17": "The receiver's institution refuses the QR code.",
    "CH11": "The receiver's tax id is wrong.",
    "CH16": "The contents are wrong or break a business rule.",
    "CN01": "The recurring schedule was cancelled.",
    "DS02": "The payer's institution forbade itself this payment.",
    "DS04": "The receiver's institution refuses the payment.",
    "DS0G": "The signer may not send this payment.",
    "DS27": "The receiver's institution is not registered or not operating.",
    "DT02": "The time of sending is invalid.",
    "DT05": "The time to refund is over.",
    "DU03": "It was already paid another way.",
    "DUPL": "The receiver already has a payment with this transaction identification.",
    "ED05": "The network could not settle the payment, or already knows its identification.",
    "FF07": "The purpose does not fit the contents.",
    "FF08": "The end-to-end identification is malformed or its time is more than 12 hours off.",
    "FRAD": "There is well-founded suspicion of fraud.",
    "INDT": "The contents do not fit the QR code or the authorisation.",
    "MD01": "The withdrawal facilitator is missing.",
    "RC09": "The payer's institution is invalid.",
    "RC10": "The receiver's institution is invalid.",
    "RR04": "The payer is under sanctions.",
    "RR06": "A tax block is only possible between companies.",
    "SL02": "This refund is not of a withdrawal or change.",
    "UPAY": "No active recurrence stands behind this payment.",
}

RAISED_BY_NETWORK: Final[frozenset[str]] = frozenset(
    {"AG12", "AG13", "AGNT", "AM01", "AM04", "AM18", "DS02", "DS27", "RC09", "RC10"}
)
"""The rejections that the network makes itself, before it asks the receiver's institution."""


# Codes of our own, which the scheme does not have.
CREDIT_CANCELLED: Final = "CREDIT_CANCELLED"
NEVER_TAKEN: Final = "NEVER_TAKEN"
NOT_HANDED_OVER: Final = "NOT_HANDED_OVER"


def explain(code: str) -> str:
    return REASONS.get(code, "The network gave a reason that is not in its catalogue.")
