"""Flow control: rates, overload, turns, shares, batches."""
