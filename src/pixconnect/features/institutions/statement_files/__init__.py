"""Readers of statement files: OFX, camt.053, CNAB 240, Efi."""
