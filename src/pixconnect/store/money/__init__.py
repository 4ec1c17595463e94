"""The ledger, and the charges, transfers, refunds and orders whose money it holds."""
