"""Typed values: Pix keys, days, and whole numbers as digits with an optional minus.

The command line's parser would also read 10.50 as 10 cents and 0x10 as 16. Operators' verbs import this without the client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, Literal

from cyclopts import CoercionError, Parameter, Token

from pixconnect.doors.cli.failures import CommandError
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.tax_id import is_cpf
from pixconnect.platform.base.clock import as_days

NO_LIMIT: Final = "none"


def read_whole_number(_type: Any, tokens: Sequence[Token]) -> int:  # noqa: ANN401  as the parser calls it
    text = tokens[0].value
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        # `usage` states the rule.
        raise CoercionError(token=tokens[0], target_type=int)
    return int(text)


def read_limit(type_: Any, tokens: Sequence[Token]) -> int | Literal["none"]:  # noqa: ANN401  as the parser calls it
    return NO_LIMIT if tokens[0].value == NO_LIMIT else read_whole_number(type_, tokens)


WHOLE_NUMBER: Final = Parameter(converter=read_whole_number)


def read_day(text: str, now: datetime) -> date:
    """Read a day of Sao Paulo, also as written in Brazil."""
    try:
        return date.fromisoformat(as_days(text.strip(), now))
    except ValueError:
        raise CommandError(f"--day: must be as 2026-11-20, 20/11/2026, friday or yesterday; it is {text!r}") from None


def guess_key_type(key: str) -> KeyType:
    digits = re.sub(r"[./-]", "", key)
    if "@" in key:
        return "EMAIL"
    if key.startswith("+"):
        return "PHONE"
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", key):
        return "EVP"
    if re.fullmatch(r"[0-9]{11}", digits):
        if not is_cpf(digits):
            raise CommandError(f"TO: {key} is no CPF; a phone number begins with the country's code: +55{digits}")
        return "CPF"
    if re.fullmatch(r"[0-9A-Za-z]{12}[0-9]{2}", digits):
        return "CNPJ"
    if re.fullmatch(r"[0-9 ()-]{10,20}", key):
        raise CommandError(f"TO: {key!r} is no phone number of Pix: it begins with + and the country's code (+5511...)")
    raise CommandError(f"TO: {key!r} looks like no kind of Pix key: name its kind by --key-type")
