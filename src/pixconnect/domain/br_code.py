"""BR Codes: a charge as text, which a QR code shows and people copy and paste.

A code is a row of fields, each an id of two digits, a length of two digits and a value; templates hold rows themselves::

    000201 010212 26..0014br.gov.bcb.pix25..pix.example/qr/7b2d.. 52040000 5303986 5802BR 59.. 60.. 62070503*** 6304ABCD
    version  once   Pix: GUI, and a key (01) or a location (25)   category   BRL          name city  reference      CRC

Three kinds: a *static* code names a key, a *dynamic* one names the location of a signed payload, and one that names only
the location of a *recurrence* cannot be paid by itself. A static or dynamic code may name a recurrence besides.

We write the strict form and read what is in circulation. Two traps: lengths count characters while the CRC counts UTF-8
bytes, and a right CRC says nothing about the fields, so both are judged. Digits are compared as ASCII: ``int`` and
``str.isdigit`` also take the digits of other scripts, signs and blanks.

Source:
    Manual de Padroes para Iniciacao do Pix 2.10.0; EMV QR Code Specification for Payment Systems, merchant-presented.
"""

import re
import unicodedata
from binascii import crc_hqx
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from pixconnect.domain import errors, money, pix_key
from pixconnect.domain.money import Cents

Kind = Literal["static", "dynamic", "recurrence"]

BR_CODE_LENGTH_MAX: Final = 512
"""Of a whole code, in UTF-8 bytes (``pixCopiaECola`` of the Pix API)."""

LOCATION_LENGTH_MAX: Final = 77
"""Of host and path together: what a Pix template has room for."""

_GUI: Final = "br.gov.bcb.pix"
_TEMPLATE_LENGTH_MAX: Final = 99
_IDS: Final = frozenset(f"{number:02d}" for number in range(100))
_LENGTHS: Final = {f"{number:02d}": number for number in range(1, 100)}

_AMOUNT: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{0,2}))?")
_ISPB: Final = re.compile(r"[0-9A-Z]{8}")
_WRITTEN_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,25}")
_READ_TXID: Final = re.compile(r"\*\*\*|[a-zA-Z0-9-]{1,25}")  # manuals before 2.0 allowed the hyphen
_LOCATION: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"/+[A-Za-z0-9._~!$&'()*+,;=:@%-][A-Za-z0-9._~!$&'()*+,;=:@%/-]*"
)

# What must stand in the fields outside the templates: id, whether it is mandatory, its form, and the form in words.
_FORMS: Final = (
    ("00", True, re.compile("01"), "must be 01"),
    ("01", False, re.compile("1[12]"), "must be 11 or 12"),
    ("52", True, re.compile("[0-9]{4}"), "must be 4 digits"),
    ("53", True, re.compile("986"), "must be 986, the real"),
    ("54", False, _AMOUNT, "must be an amount such as 106.07"),
    ("58", True, re.compile("BR"), "must be BR"),
    ("59", True, re.compile("[ -~]{1,25}"), "must be 1 to 25 printable ASCII characters"),
    ("60", True, re.compile("[ -~]{1,15}"), "must be 1 to 15 printable ASCII characters"),
)


class BrCode(Struct, frozen=True, kw_only=True):
    """A BR Code as it was read.

    Attributes:
        kind: What it names: a key, a location, or a recurrence alone.
        key: 26-01 of a static code, as written: not normalised, and not judged.
        location: 26-25 of a dynamic code: host and path, no scheme.
        recurrence_location: 80-25 (or any of 80 to 99): where a recurrence can be agreed to.
        description: 26-02, a text for the payer.
        facilitator_ispb: 26-03, who hands out the cash of a Pix Saque.
        is_single_use: 01 is 12. It does not tell static from dynamic.
        merchant_category: 52; ``0000`` says nothing.
        amount_cents: 54. In a dynamic code it means nothing; see ``fixed_amount_cents``.
        merchant_name: 59. Payers are shown the directory's name instead.
        merchant_city: 60.
        postal_code: 61.
        reference_label: 62-05 as written. Only sometimes a txid; see ``txid``.
    """

    kind: Kind
    key: str | None
    location: str | None
    recurrence_location: str | None
    description: str | None
    facilitator_ispb: str | None
    is_single_use: bool
    merchant_category: str
    amount_cents: Cents | None
    merchant_name: str
    merchant_city: str
    postal_code: str | None
    reference_label: str | None

    @property
    def fixed_amount_cents(self) -> Cents | None:
        """What must be paid exactly, if the code itself says so: not when it is 0, and never in a dynamic code."""
        return self.amount_cents or None if self.kind == "static" else None

    @property
    def txid(self) -> str | None:
        """The txid that a payment of this static code carries; ``***`` is none, and a dynamic code's payload has its own."""
        return self.reference_label if self.kind == "static" and self.reference_label != "***" else None


def parse_br_code(text: str) -> BrCode:
    """Read a BR Code of ours or of anybody else.

    Args:
        text: As scanned or pasted, complete and unchanged.

    Returns:
        What it says. Whether its key or location leads anywhere is for others to find out.

    Raises:
        InvalidQrCode: It is malformed, its CRC is wrong, or it is no Pix code. Nothing else is ever raised.

    Example:
        >>> parse_br_code(format_dynamic_br_code("pix.example/qr/7b2d64c4", "Loja Sao Joao", "Recife")).location
        'pix.example/qr/7b2d64c4'
    """
    _check_frame(text)
    fields = _read_fields(text, "the code")
    if next(iter(fields)) != "00" or next(reversed(fields)) != "63":
        raise _refusal("field 00 must come first and field 63 last")
    pix = _read_pix_template(fields)
    _check_forms(fields)
    recurrence_location = _read_recurrence_location(fields)
    amount = fields.get("54")
    return BrCode(
        kind=_kind_of(pix, recurrence_location),
        key=pix.get("01"),
        location=pix.get("25"),
        recurrence_location=recurrence_location,
        description=pix.get("02"),
        facilitator_ispb=pix.get("03"),
        is_single_use=fields.get("01") == "12",
        merchant_category=fields["52"],
        amount_cents=None if amount is None else parse_amount(amount),
        merchant_name=fields["59"],
        merchant_city=fields["60"],
        postal_code=fields.get("61"),
        reference_label=_read_reference_label(fields),
    )


def parse_amount(text: str) -> Cents:
    r"""Read an amount from a BR Code or from the payload behind one.

    Args:
        text: Reais, such as ``"106.07"``. What other writers leave out is read as zeros: ``"106"``, ``"106."``, ``"106.7"``.

    Returns:
        The same amount in cents; 0 means that the payer chooses.

    Raises:
        InvalidQrCode: The text is not of the form ``\d{1,10}(\.\d{0,2})?``.

    Source:
        Manual de Padroes para Iniciacao do Pix, field 54.

    Example:
        >>> parse_amount("106.07"), parse_amount("0.9")
        (10607, 90)
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise _refusal("the amount must be reais such as 106.07, without thousands separators")
    reais, cents = match.groups("")
    return int(reais) * 100 + int(cents.ljust(2, "0"))


def format_dynamic_br_code(
    location: str, merchant_name: str, merchant_city: str, recurrence_location: str | None = None
) -> str:
    """Write the code of a charge: payable once, everything that matters behind its location.

    Args:
        location: Host and path of the payload, without a scheme, at most 77 characters.
        merchant_name: Of any length and script; accents are dropped, and what does not fit.
        merchant_city: The same.
        recurrence_location: Where the payer can agree to a recurrence along with the payment.

    Returns:
        Pure ASCII, at most 512 characters.

    Raises:
        InvalidQrCode: A location that no code can carry.

    Example:
        >>> format_dynamic_br_code("pix.example.com/8b3da2f39a4140d1a91abd93113bd441", "Fulano de Tal", "BRASILIA")[:80]
        '00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd9311'
    """
    _check_location(location, "location")
    length = len(location)  # and beside it in the template: 18 characters of field 00, and the id and length of 25
    head = f"00020101021226{22 + length}0014br.gov.bcb.pix25{length:02d}{location}"
    return _seal(head + _format_tail(merchant_name, merchant_city, None, "***", recurrence_location))


def format_static_br_code(
    key: str,
    merchant_name: str,
    merchant_city: str,
    *,
    amount_cents: Cents | None = None,
    txid: str | None = None,
    description: str | None = None,
    recurrence_location: str | None = None,
) -> str:
    """Write a code that names a key and can be paid again and again.

    Args:
        key: A normalised Pix key.
        merchant_name: As for a dynamic code.
        merchant_city: As for a dynamic code.
        amount_cents: What must be paid; ``None`` leaves it to the payer.
        txid: What the receiver recognises the payment by: 1 to 25 letters and digits.
        description: For the payer; accents are dropped. What fits depends on the key's length.
        recurrence_location: Where the payer can agree to a recurrence along with the payment.

    Raises:
        InvalidPixKey: The key has no valid form, or is not normalised.
        AmountOutOfRange: The amount is none that can be paid.
        InvalidQrCode: Another value that no code can carry.

    Example:
        >>> parse_br_code(format_static_br_code("pix@bcb.gov.br", "Loja", "Recife", amount_cents=990)).amount_cents
        990
    """
    if pix_key.parse_pix_key(key).key != key:
        raise errors.InvalidPixKey("key: must be normalised before it is written")
    if txid is not None and not _WRITTEN_TXID.fullmatch(txid):
        raise errors.InvalidQrCode("txid: must be 1 to 25 letters and digits in a static code")
    if amount_cents is not None:
        money.check_amount(amount_cents)
    template = _format_field("00", _GUI) + _format_field("01", key)
    text = _fold(description or "")
    if text:
        room = _TEMPLATE_LENGTH_MAX - len(template) - 4
        if len(text) > room:
            raise errors.InvalidQrCode(f"description: only {max(room, 0)} characters fit beside this key")
        template += _format_field("02", text)
    tail = _format_tail(merchant_name, merchant_city, amount_cents, txid or "***", recurrence_location)
    return _seal(f"000201{_format_field('26', template)}{tail}")


def format_recurrence_br_code(recurrence_location: str, merchant_name: str, merchant_city: str) -> str:
    """Write a code that offers a recurrence and no payment. Arguments and refusals are those of a dynamic code."""
    tail = _format_tail(merchant_name, merchant_city, None, "***", recurrence_location)
    return _seal(f"000201{_format_field('26', _format_field('00', _GUI))}{tail}")


def _check_frame(text: str) -> None:
    """Judge the size, the characters and the CRC."""
    # Nothing invisible: neither control characters nor half surrogates nor marks that turn the direction of writing.
    if len(text) > BR_CODE_LENGTH_MAX or not text.isprintable() or len(text.encode()) > BR_CODE_LENGTH_MAX:
        raise _refusal(f"must be at most {BR_CODE_LENGTH_MAX} bytes of printable text")
    if text[-8:-4] != "6304":
        raise _refusal("must end in field 63, the CRC, of 4 characters")
    crc = _crc(text[:-4])
    if text[-4:] != crc:
        raise _refusal(f"the CRC is wrong, it must be {crc}: the code was changed or cut")


def _read_fields(text: str, where: str) -> dict[str, str]:
    """Split a row of fields; ``where`` names it in messages."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(text):
        field_id = text[at : at + 2]
        length = _LENGTHS.get(text[at + 2 : at + 4])
        if field_id not in _IDS or length is None:
            raise _refusal(f"{where} has no field id and length of two digits each at character {at + 1}")
        at += 4
        value = text[at : at + length]
        if len(value) != length:
            raise _refusal(f"{where} is cut short: field {field_id} should have {length} characters")
        if field_id in fields:
            raise _refusal(f"{where} has field {field_id} twice")
        fields[field_id] = value
        at += length
    return fields


def _check_forms(fields: Mapping[str, str]) -> None:
    for field_id, is_mandatory, form, rule in _FORMS:
        value = fields.get(field_id)
        if value is None:
            if is_mandatory:
                raise _refusal(f"field {field_id} is missing")
        elif not form.fullmatch(value):
            raise _refusal(f"field {field_id} {rule}")


def _read_pix_templates(fields: Mapping[str, str], first_id: str, last_id: str) -> list[dict[str, str]]:
    """Those of the templates that are Pix; other schemes' are none of our business, whatever is in them."""
    templates: list[dict[str, str]] = []
    for field_id, value in fields.items():
        if first_id <= field_id <= last_id and _GUI in value.lower():
            template = _read_fields(value, f"field {field_id}")
            if template.get("00", "").lower() == _GUI:
                templates.append(template)
    return templates


def _read_pix_template(fields: Mapping[str, str]) -> dict[str, str]:
    templates = _read_pix_templates(fields, "26", "51")
    if len(templates) != 1:
        raise _refusal(f"must have one Pix template, {_GUI} in one of the fields 26 to 51, and has {len(templates)}")
    pix = templates[0]
    if "25" in pix:
        if not pix.keys().isdisjoint({"01", "02", "03"}):
            raise _refusal(
                "the Pix template has a location (25), which excludes a key (01), a text (02) and an ISPB (03)"
            )
        _check_location(pix["25"], "emv: the location")
    elif "03" in pix and not _ISPB.fullmatch(pix["03"]):
        raise _refusal("the ISPB in the Pix template (03) must be 8 digits or capital letters")
    return pix


def _read_recurrence_location(fields: Mapping[str, str]) -> str | None:
    locations = [template["25"] for template in _read_pix_templates(fields, "80", "99") if "25" in template]
    if len(locations) > 1:
        raise _refusal("offers more than one recurrence")
    for location in locations:
        _check_location(location, "emv: the recurrence's location")
    return locations[0] if locations else None


def _read_reference_label(fields: Mapping[str, str]) -> str | None:
    label = _read_fields(fields["62"], "field 62").get("05") if "62" in fields else None
    if label is not None and not _READ_TXID.fullmatch(label):
        raise _refusal("the txid (62-05) must be 1 to 25 letters and digits, or ***")
    return label


def _kind_of(pix: Mapping[str, str], recurrence_location: str | None) -> Kind:
    if "25" in pix:
        return "dynamic"
    if "01" in pix:
        return "static"
    if recurrence_location is None:
        raise _refusal("names neither a key nor a location")
    return "recurrence"


def _check_location(location: str, field: str) -> None:
    if len(location) > LOCATION_LENGTH_MAX or not _LOCATION.fullmatch(location):
        raise errors.InvalidQrCode(
            f"{field}: must be host/path of at most {LOCATION_LENGTH_MAX} characters, without a scheme"
        )


def _format_tail(
    merchant_name: str, merchant_city: str, amount_cents: Cents | None, label: str, recurrence_location: str | None
) -> str:
    """Write all that follows the Pix template."""
    amount = "" if amount_cents is None else _format_field("54", money.format_reais(amount_cents))
    names = _format_names(merchant_name, merchant_city)
    tail = f"520400005303986{amount}5802BR{names}62{4 + len(label):02d}05{len(label):02d}{label}"
    if recurrence_location is None:
        return tail
    _check_location(recurrence_location, "recurrence_location")
    return tail + _format_field("80", _format_field("00", _GUI) + _format_field("25", recurrence_location))


@lru_cache(1024)
def _format_names(merchant_name: str, merchant_city: str) -> str:
    """Write the fields 59 and 60. They are the same in every code of a holder, and folding costs more than all else."""
    name = _fold(merchant_name)[:25].rstrip() or "NAO INFORMADO"
    city = _fold(merchant_city)[:15].rstrip() or "NAO INFORMADA"
    return _format_field("59", name) + _format_field("60", city)


def _format_field(field_id: str, value: str) -> str:
    return f"{field_id}{len(value):02d}{value}"


def _fold(text: str) -> str:
    """Drop accents (by NFD) and everything else that is not printable ASCII; blanks of any kind become single ones."""
    spaced = unicodedata.normalize("NFD", " ".join(text.split()))
    return " ".join("".join(character for character in spaced if " " <= character <= "~").split())


def _seal(text: str) -> str:
    unsealed = text + "6304"
    return unsealed + _crc(unsealed)


def _crc(text: str) -> str:
    """CRC-16/CCITT-FALSE over the UTF-8 bytes: polynomial 0x1021, start 0xFFFF, nothing reflected.

    Example:
        >>> _crc("123456789")
        '29B1'
    """
    return f"{crc_hqx(text.encode(), 0xFFFF):04X}"


def _refusal(rule: str) -> errors.InvalidQrCode:
    return errors.InvalidQrCode(f"emv: {rule}")
