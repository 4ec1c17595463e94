"""The arrangement's rules that have dates, as a register, and values derived from it."""
