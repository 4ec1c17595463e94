"""Pix for account holders: charges, transfers, refunds, a ledger, signed webhooks, and a sandbox rail to try them on."""

__version__ = "0.1.0"
