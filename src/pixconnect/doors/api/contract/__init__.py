"""The contract's operations on charges, transfers and refunds."""
