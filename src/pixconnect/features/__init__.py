"""The features, one folder each: the table of contents of the product."""

from typing import Final

FEATURES: Final[dict[str, tuple[str, ...]]] = {
    # Who calls: clients, tokens, certificates, signing keys, operators and their sessions.
    "identity": (),
    # Webhook endpoints, deliveries and their signatures, redelivery, and the feed of events.
    "webhooks": ("identity", "sandbox"),
    # Payloads at locations of QR codes: those of our charges, and those that payers read.
    "locations": ("identity", "sandbox"),
    # The statement and its files (CSV, OFX, camt.053).
    "statements": ("movements",),
    # Receipts of payments, as data and as PDF.
    "receipts": ("institutions",),
    # The OpenAPI documents, and the served site.
    "documentation": ("identity", "locations", "monitoring", "pix_api", "statements", "webhooks"),
    # The simulated network, its rail, its clock and its controls.
    "sandbox": ("identity", "webhooks"),
    # Health checks, metrics, alarms and figures.
    "monitoring": ("identity", "sandbox", "webhooks"),
    # Contested Pix: infractions, answers, decisions.
    "contests": ("institutions", "movements", "sandbox"),
    # Money that an institution moves or blocks by itself: fees, wires, blocks, suspect credits.
    "movements": ("institutions", "sandbox"),
    # Operators' approval of outgoing transfers.
    "approvals": ("institutions",),
    # Transfers that are prepared first and confirmed later.
    "prepared_transfers": ("pix_api",),
    # Differences between the books and the outside, and what two operators do about each.
    "cases": ("allowances", "institutions", "movements", "proof"),
    # The central bank's Pix API: charges, their locations, received Pix, key webhooks.
    "pix_api": ("due_charges", "institutions", "locations", "webhooks"),
    # Charges with a due date: interest, fines, rebates, discounts.
    "due_charges": ("locations", "pix_api"),
    # Lots of charges with a due date.
    "lots": ("due_charges", "institutions", "locations", "pix_api"),
    # Accounts at institutions, over which live mode moves money.
    "institutions": ("allowances", "cases", "due_charges", "identity", "movements", "pix_api", "webhooks"),
    # What operators allow to leave over an account at an institution.
    "allowances": ("institutions",),
    # Proof of the books: rules, chains of entries and audit, `verify`.
    "proof": (),
    # Search, timelines and lists across subjects.
    "finding": ("due_charges", "identity", "institutions", "monitoring", "movements", "webhooks"),
    # People's data: export, erasure, retention.
    "people": (),
    # Traces of requests and orders (OpenTelemetry).
    "traces": ("institutions", "monitoring", "webhooks"),
    # The console's pages of payments, webhooks, the ledger, figures, the sandbox, days of institutions and the audit.
    "console_pages": (
        "cases",
        "contests",
        "due_charges",
        "finding",
        "institutions",
        "monitoring",
        "proof",
        "sandbox",
        "statements",
        "webhooks",
    ),
}
"""Each feature with those that it imports. A new feature is its folder and a line here; frames show rows in this order."""

NAMES: Final = tuple(FEATURES)

NEEDED: Final = ("identity", "locations", "monitoring", "proof", "sandbox", "webhooks")
"""Of the contract, of the sandbox and of `verify`; every other feature is optional (``scripts/without.py``)."""
