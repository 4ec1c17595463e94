"""CPF and CNPJ: the tax ids of people and companies, and their check digits.

A CNPJ issued from July 2026 on may have letters in its first twelve characters; its two check digits stay digits, and one rule
covers both kinds. The form is checked here, in full and as ASCII, because the library for check digits is made for web forms:
it tolerates punctuation, blanks and foreign digits.

Source: Receita Federal do Brasil; Instrucao Normativa RFB 2.229/2024; python-stdnum computes the check digits.

Addresses of holders are here too, with the states of Brazil.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct
from stdnum.br import cnpj, cpf

from pixconnect.platform.base import errors

_CPF_FORM: Final = re.compile(r"[0-9]{11}")
_CNPJ_FORM: Final = re.compile(r"[0-9A-Z]{12}[0-9]{2}")
# Punctuation counts only in its place; each mark may be missing.
_MASKED_CPF: Final = re.compile(r"([0-9]{3})\.?([0-9]{3})\.?([0-9]{3})-?([0-9]{2})")
_MASKED_CNPJ: Final = re.compile(r"([0-9A-Za-z]{2})\.?([0-9A-Za-z]{3})\.?([0-9A-Za-z]{3})/?([0-9A-Za-z]{4})-?([0-9]{2})")
_CPF_LENGTH: Final = 11
_CNPJ_LENGTH: Final = 14
_CACHED_MAX: Final = 4096


def check_tax_id(text: str, field: str, form: str = "unmasked") -> None:
    """Refuse anything but a CPF of 11 digits or a CNPJ of 14 characters, unmasked."""
    if not (is_cpf(text) or is_cnpj(text)):
        raise errors.InvalidTaxId(
            f"{field}: must be a CPF of 11 digits or a CNPJ of 14 characters, {form}, with right check digits"
        )


def unmask_tax_id(text: str) -> str:
    """Remove the punctuation of a CPF or CNPJ, letters in capitals; any other text stays as it is.

    Example:
        >>> unmask_tax_id("529.982.247-25")
        '52998224725'
    """
    found = _MASKED_CPF.fullmatch(text) or _MASKED_CNPJ.fullmatch(text)
    return "".join(found.groups()).upper() if found else text


def is_cpf(text: str) -> bool:
    # The length comes first so that the cache holds only texts as long as a CPF.
    return len(text) == _CPF_LENGTH and _is_cpf(text)


def is_cnpj(text: str) -> bool:
    # The length first, as for a CPF.
    return len(text) == _CNPJ_LENGTH and _is_cnpj(text)


@lru_cache(_CACHED_MAX)
def _is_cpf(text: str) -> bool:
    # One digit eleven times has valid check digits, but is never issued.
    return _CPF_FORM.fullmatch(text) is not None and text != text[0] * _CPF_LENGTH and cpf.is_valid(text)


@lru_cache(_CACHED_MAX)
def _is_cnpj(text: str) -> bool:
    return _CNPJ_FORM.fullmatch(text) is not None and cnpj.is_valid(text)


def write_tax_id(tax_id: str) -> str:
    """Format a CPF or CNPJ with its punctuation; any other text, such as a masked one, stays as it is.

    Example:
        >>> write_tax_id("12345678000195")
        '12.345.678/0001-95'
    """
    if not tax_id.isalnum():
        return tax_id
    if len(tax_id) == _CPF_LENGTH:
        return f"{tax_id[:3]}.{tax_id[3:6]}.{tax_id[6:9]}-{tax_id[9:]}"
    if len(tax_id) == _CNPJ_LENGTH:
        return f"{tax_id[:2]}.{tax_id[2:5]}.{tax_id[5:8]}/{tax_id[8:12]}-{tax_id[12:]}"
    return tax_id


def mask_cpf(cpf: str) -> str:
    """Mask a CPF as institutions show it to others.

    Example:
        >>> mask_cpf("52998224725")
        '***.982.247-**'
    """
    return f"***.{cpf[3:6]}.{cpf[6:9]}-**"


def mask_tax_id(tax_id: str) -> str:
    """Mask a tax id for permanent records: the middle of a CPF, as authorities print it, and a CNPJ's root.

    Example:
        >>> mask_tax_id("52998224725")
        '***982247**'
    """
    return f"***{tax_id[3:9]}**" if len(tax_id) == _CPF_LENGTH else f"{tax_id[:8]}******"


STREET_LENGTH_MAX: Final = 200  # as in the official Pix API 2.9.0 (``DadosComplementaresPessoa``)

STATE_CODES: Final[Mapping[str, str]] = dict(
    **dict(RO="11", AC="12", AM="13", RR="14", PA="15", AP="16", TO="17"),
    **dict(MA="21", PI="22", CE="23", RN="24", PB="25", PE="26", AL="27", SE="28", BA="29"),
    **dict(MG="31", ES="32", RJ="33", SP="35", PR="41", SC="42", RS="43"),
    **dict(MS="50", MT="51", GO="52", DF="53"),
)
"""The states by their letters, with the two digits that the codes of their municipalities begin with. Source: IBGE."""
_POSTAL_CODE: Final = re.compile(r"[0-9]{5}-?[0-9]{3}")
_MUNICIPALITY: Final = re.compile(r"[0-9]{7}")


class Address(Struct, frozen=True, kw_only=True):
    street: str
    city: str
    state: str
    postal_code: str  # 8 digits


def is_municipality(code: str) -> bool:
    """Whether a municipality may have this code: there are over five thousand, so only the state is checked."""
    return _MUNICIPALITY.fullmatch(code) is not None and code[:2] in STATE_CODES.values()


def read_postal_code(text: str) -> str:
    """A CEP without its mark."""
    if not _POSTAL_CODE.fullmatch(text):
        raise errors.BadRequest("postal_code: must be a CEP of 8 digits, such as 01310-100")
    return text.replace("-", "")


def check_state(text: str) -> None:
    if text not in STATE_CODES:
        raise errors.BadRequest("state: must be one of Brazil by its two letters, such as SP")
