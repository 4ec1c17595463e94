"""Money is integer cents."""

from typing import Annotated

from msgspec import Meta

from pixconnect.platform.base import errors

Cents = int

AMOUNT_MIN_CENTS = 1
AMOUNT_MAX_CENTS = 999_999_999_999  # 9 999 999 999.99 reais: the amount of a BR Code has room for 13 characters

AmountCents = Annotated[int, Meta(ge=AMOUNT_MIN_CENTS, le=AMOUNT_MAX_CENTS)]


def check_amount(amount_cents: int, field: str = "amount") -> None:
    """Refuse an amount that no Pix can have; the error uses the caller's name for it."""
    if not AMOUNT_MIN_CENTS <= amount_cents <= AMOUNT_MAX_CENTS:
        raise errors.AmountOutOfRange(f"{field}: must be from {AMOUNT_MIN_CENTS} to {AMOUNT_MAX_CENTS} cents")


def show_reais(amount_cents: Cents) -> str:
    """Write an amount for people.

    >>> show_reais(-123456789)
    '-R$ 1.234.567,89'
    """
    whole, cents = divmod(abs(amount_cents), 100)
    sign = "-" if amount_cents < 0 else ""
    return f"{sign}R$ {whole:,}".replace(",", ".") + f",{cents:02d}"


def format_reais(amount_cents: Cents) -> str:
    """Write an amount as the Pix scheme does: 10607 cents are ``106.07``."""
    return f"{amount_cents // 100}.{amount_cents % 100:02d}"
