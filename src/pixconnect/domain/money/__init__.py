"""The rules of money: charges, transfers, refunds, the ledger, limits, keys and codes, and the rail as a port."""
