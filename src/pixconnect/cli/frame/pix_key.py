"""What kind of key a person has typed."""

from __future__ import annotations

import re

from pixconnect.cli.frame.failures import CommandError
from pixconnect.domain.money.holder import KeyType


def guess_key_type(key: str) -> KeyType:
    """The type that a key looks like."""
    digits = re.sub(r"[./-]", "", key)
    if "@" in key:
        return "EMAIL"
    if key.startswith("+"):
        return "PHONE"
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", key):
        return "EVP"
    if re.fullmatch(r"[0-9]{11}", digits):
        return "CPF"
    if re.fullmatch(r"[0-9A-Za-z]{12}[0-9]{2}", digits):
        return "CNPJ"
    raise CommandError(f"TO: {key!r} looks like no kind of Pix key: name its kind by --key-type")
