"""CPF and CNPJ: the numbers under which people and companies pay their taxes, and their check digits.

A CNPJ issued from July 2026 on may hold letters in its first twelve places; its two check digits stay digits, and one
rule serves both kinds. The forms are judged here, on ASCII alone and in full, because the library that knows the check
digits is made for forms that people fill in: it forgives masks, blanks and foreign digits.

What was found out is remembered for a few thousand texts, and of these only for those as long as a tax id: whoever sends
something else leaves nothing behind.
"""

import re
from functools import lru_cache
from typing import Final

from stdnum.br import cnpj, cpf

from pixconnect.domain import errors

_CPF_FORM: Final = re.compile(r"[0-9]{11}")
_CNPJ_FORM: Final = re.compile(r"[0-9A-Z]{12}[0-9]{2}")
_CPF_LENGTH: Final = 11
_CNPJ_LENGTH: Final = 14
_CACHED_MAX: Final = 4096


def check_tax_id(text: str, field: str) -> None:
    """Refuse what is no tax id.

    Args:
        text: A CPF of 11 digits or a CNPJ of 14 characters, unmasked.
        field: What the caller named it, for the message.

    Raises:
        InvalidTaxId: Neither form, or wrong check digits.

    Example:
        >>> check_tax_id("52998224725", "payer.tax_id")
    """
    if not (is_cpf(text) or is_cnpj(text)):
        raise errors.InvalidTaxId(
            f"{field}: must be a CPF of 11 digits or a CNPJ of 14 characters, unmasked, with right check digits"
        )


def is_cpf(text: str) -> bool:
    """Whether this is a CPF: 11 digits, the last two of which follow from the others.

    The same digit eleven times has right check digits and was never given to anybody.

    Source:
        Receita Federal do Brasil; python-stdnum computes the digits.

    Example:
        >>> is_cpf("52998224725"), is_cpf("52998224724"), is_cpf("11111111111")
        (True, False, False)
    """
    return len(text) == _CPF_LENGTH and _is_cpf(text)


def is_cnpj(text: str) -> bool:
    """Whether this is a CNPJ: 12 digits or capital letters, and two check digits that follow from them.

    Source:
        Instrucao Normativa RFB 2.229/2024; python-stdnum computes the digits.

    Example:
        >>> is_cnpj("00038166000105"), is_cnpj("12ABC34501DE35"), is_cnpj("12abc34501de35")
        (True, True, False)
    """
    return len(text) == _CNPJ_LENGTH and _is_cnpj(text)


@lru_cache(_CACHED_MAX)
def _is_cpf(text: str) -> bool:
    return _CPF_FORM.fullmatch(text) is not None and text != text[0] * _CPF_LENGTH and cpf.is_valid(text)


@lru_cache(_CACHED_MAX)
def _is_cnpj(text: str) -> bool:
    return _CNPJ_FORM.fullmatch(text) is not None and cnpj.is_valid(text)
