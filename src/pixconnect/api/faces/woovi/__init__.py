"""Woovi's interface, which is none of the central bank's: in cents, by the caller's names, without tokens."""
