"""The arrangement's rules that have dates, as a register, and what is read of it."""
