"""BR Codes: a charge as text, which a QR code shows and people copy and paste.

A code is a row of fields, each an id of two digits, a length of two digits and a value; templates hold rows again::

    000201 010212 26..0014br.gov.bcb.pix25..pix.example/qr/7b2d.. 52040000 5303986 5802BR 59.. 60.. 62070503*** 6304ABCD
    version  once   Pix: GUI, and a key (01) or a location (25)   category   BRL          name city  reference      CRC

A *static* code names a key, a *dynamic* one the location of a signed payload, and a *recurrence* alone cannot be paid. We write
the strict form and read all forms in circulation. Two traps: lengths count characters while the CRC counts UTF-8 bytes, and a
right CRC does not validate the fields, so we check both. We compare digits as ASCII: ``int`` and ``str.isdigit`` also accept
digits of other scripts, signs and blanks.

Source: Manual de Padroes para Iniciacao do Pix 2.10.0; EMV QR Code Specification, merchant-presented.
"""

import re
import unicodedata
from binascii import crc_hqx
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from pixconnect.kernel.rules import holder, money
from pixconnect.kernel.rules.holder import ISPB
from pixconnect.kernel.rules.money import Cents
from pixconnect.platform.base import errors
from pixconnect.platform.outgoing_text import trim_pasted

Kind = Literal["static", "dynamic", "recurrence"]

BR_CODE_LENGTH_MAX: Final = 512  # UTF-8 bytes of a whole code (``pixCopiaECola`` of the Pix API)

LOCATION_LENGTH_MAX: Final = 77  # characters of host and path together: the capacity of a Pix template

_GUI: Final = "br.gov.bcb.pix"
_TEMPLATE_LENGTH_MAX: Final = 99
_IDS: Final = frozenset(f"{number:02d}" for number in range(100))
_LENGTHS: Final = {f"{number:02d}": number for number in range(1, 100)}

_AMOUNT: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{0,2}))?")
_WRITTEN_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,25}")
_READ_TXID: Final = re.compile(r"\*\*\*|[a-zA-Z0-9-]{1,25}")  # manuals before 2.0 allowed the hyphen
_LOCATION: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"/+[A-Za-z0-9._~!$&'()*+,;=:@%-][A-Za-z0-9._~!$&'()*+,;=:@%/-]*"
)

# The rules for fields outside the templates: id, whether it is mandatory, its form, and the form in words.
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
_IN_PAYLOAD: Final = frozenset({"54", "59", "60"})  # fields that the payload of a dynamic code has too, as it has field 62


class BrCode(Struct, frozen=True, kw_only=True):
    """A BR Code as it was read; numbers below are ids of fields, "26-01" is field 01 of template 26."""

    kind: Kind
    key: str | None  # 26-01, as written: neither normalised nor checked
    location: str | None  # 26-25: host and path, no scheme
    recurrence_location: str | None  # 80-25 (or 81 to 99)
    description: str | None  # 26-02, for the payer
    facilitator_ispb: str | None  # 26-03, the institution that pays out the cash of a Pix Saque
    # Field 01 is 12. It does not distinguish static from dynamic codes.
    is_single_use: bool
    merchant_category: str
    # 54. In a dynamic code it means nothing; see ``fixed_amount_cents``.
    amount_cents: Cents | None
    # 59. Payers are shown the name in the directory instead.
    merchant_name: str
    merchant_city: str
    postal_code: str | None
    # 62-05 as written. Only sometimes a txid; see ``txid``.
    reference_label: str | None

    @property
    def fixed_amount_cents(self) -> Cents | None:
        """The amount that the code itself fixes: only a static code with more than 0."""
        # 0 means that the payer chooses; in a dynamic code the payload's amount counts.
        return self.amount_cents or None if self.kind == "static" else None

    @property
    def txid(self) -> str | None:
        """The txid that a payment of this static code carries; a dynamic code has its own in the payload."""
        # "***" is a code's mark for none.
        return self.reference_label if self.kind == "static" and self.reference_label != "***" else None


def parse_br_code(text: str) -> BrCode:
    """Read any BR Code, ours or another's, with blanks around it; it does not check where the key or location leads.

    Fields of a dynamic code that its payload repeats are not checked: payers ignore them.
    """
    text = trim_pasted(text)
    _check_frame(text)
    fields = _read_code(text)
    # Fields stand in any order but for these two, by EMV.
    if next(iter(fields)) != "00" or next(reversed(fields)) != "63":
        raise _refusal("field 00 must come first and field 63 last")
    pix = _read_pix_template(fields)
    is_dynamic = "25" in pix
    _check_forms(fields, is_dynamic=is_dynamic)
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
        amount_cents=None if amount is None or not _AMOUNT.fullmatch(amount) else parse_amount(amount),
        merchant_name=fields.get("59", ""),
        merchant_city=fields.get("60", ""),
        postal_code=fields.get("61"),
        reference_label=_find_label(fields) if is_dynamic else _read_reference_label(fields),
    )


def parse_amount(text: str) -> Cents:
    r"""Read ``\d{1,10}(\.\d{0,2})?`` reais: some writers omit zeros. An amount of 0 leaves the choice to the payer.

    Example:
        >>> parse_amount("106.07"), parse_amount("0.9")
        (10607, 90)
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise _refusal("the amount must be reais such as 106.07, without thousands separators")
    reais, cents = match.groups("")
    return int(reais) * 100 + int(cents.ljust(2, "0"))


def format_dynamic_br_code(location: str, merchant_name: str, merchant_city: str, *, is_paid_once: bool = True) -> str:
    """Write the code of a charge, whose location serves the payment's details.

    Args:
        location: Host and path of the payload, without a scheme, at most 77 characters.
        merchant_name: Any length and script; accents are dropped, and the name is cut to fit.
        is_paid_once: Whether it is marked as payable once, which codes of charges with a due date are not.
    """
    check_location(location, "location")
    length = len(location)  # and beside it in the template: 18 characters of field 00, and the id and length of 25
    point = "010212" if is_paid_once else ""
    head = f"000201{point}26{22 + length}0014br.gov.bcb.pix25{length:02d}{location}"
    return _seal(head + _format_tail(merchant_name, merchant_city, None, "***"))


def format_static_br_code(
    key: str,
    merchant_name: str,
    merchant_city: str,
    *,
    amount_cents: Cents | None = None,
    txid: str | None = None,
    description: str | None = None,
) -> str:
    """Write a code that names a normalised key and can be paid again and again.

    Args:
        amount_cents: ``None`` leaves the choice to the payer.
        txid: 1 to 25 letters and digits, by which the receiver recognises the payment.
        description: For the payer; accents are dropped. How much fits depends on the key's length.
    """
    # Payers' institutions look up the exact text.
    if holder.parse_pix_key(key).key != key:
        raise errors.InvalidPixKey("key: must be normalised before it is written")
    if txid is not None and not _WRITTEN_TXID.fullmatch(txid):
        raise errors.InvalidQrCode("txid: must be 1 to 25 letters and digits in a static code")
    if amount_cents is not None:
        money.check_amount(amount_cents)
    template = _format_field("00", _GUI) + _format_field("01", key)
    if text := _fold(description or ""):
        # 4 characters are the id and length of the description itself.
        room = _TEMPLATE_LENGTH_MAX - len(template) - 4
        if len(text) > room:
            raise errors.InvalidQrCode(f"description: only {max(room, 0)} characters fit beside this key")
        template += _format_field("02", text)
    tail = _format_tail(merchant_name, merchant_city, amount_cents, txid or "***")
    return _seal(f"000201{_format_field('26', template)}{tail}")


def _check_frame(text: str) -> None:
    # Nothing invisible: neither control characters nor half surrogates nor marks that turn the direction of writing.
    if not text.isprintable():
        at = next(number for number, character in enumerate(text) if not character.isprintable())
        raise _refusal(f"must be printable text, and has U+{ord(text[at]):04X} at character {at + 1}")
    if len(text) > BR_CODE_LENGTH_MAX or len(text.encode()) > BR_CODE_LENGTH_MAX:
        raise _refusal(f"must be at most {BR_CODE_LENGTH_MAX} bytes")
    if text[-8:-4] != "6304":
        raise _refusal("must end in field 63, the CRC, of 4 characters")
    # The CRC covers its own id and length, "6304". Some write it in small letters.
    crc = _crc(text[:-4])
    if text[-4:].upper() != crc:
        raise _refusal(f"the CRC is wrong, it must be {crc}: the code was changed or cut")


def _read_code(text: str) -> dict[str, str]:
    try:
        return _read_fields(text, "the code")
    except errors.InvalidQrCode:
        # Lengths that count bytes go wrong behind the first accented letter: the fault is there, not where parsing fails.
        octets, at = text.encode(), 0
        while at < len(octets) and not text.isascii():
            value = octets[at + 4 : at + 4 + int(octets[at + 2 : at + 4])] if octets[at + 2 : at + 4].isdigit() else b""
            if not value:
                break
            if not value.isascii():
                field_id = octets[at : at + 2].decode()
                raise _refusal(f"field {field_id} has a letter with an accent, and a length that counts its bytes") from None
            at += 4 + len(value)
        raise


def _read_fields(text: str, where: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while at < len(text):
        field_id = text[at : at + 2]
        length = _LENGTHS.get(text[at + 2 : at + 4])
        if field_id not in _IDS or length is None:
            raise _refusal(f"{where} has no field id and length of two digits each at character {at + 1}")
        at += 4
        # Python's slices end at the end of the text, so a length that is too large shows only afterwards.
        value = text[at : at + length]
        if len(value) != length:
            raise _refusal(f"{where} is cut short: field {field_id} should have {length} characters")
        if field_id in fields:
            raise _refusal(f"{where} has field {field_id} twice")
        fields[field_id] = value
        at += length
    return fields


def _check_forms(fields: Mapping[str, str], *, is_dynamic: bool) -> None:
    for field_id, is_mandatory, form, rule in _FORMS:
        value = fields.get(field_id)
        if is_dynamic and field_id in _IN_PAYLOAD:
            continue
        if value is None:
            if is_mandatory:
                raise _refusal(f"field {field_id} is missing")
        elif not form.fullmatch(value):
            raise _refusal(f"field {field_id} {rule}")


def _read_pix_templates(fields: Mapping[str, str], first_id: str, last_id: str) -> list[dict[str, str]]:
    templates: list[dict[str, str]] = []
    for field_id, value in fields.items():
        # Templates of other schemes may hold anything, so we parse only one that names Pix.
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
            raise _refusal("the Pix template has a location (25), which excludes a key (01), a text (02) and an ISPB (03)")
        check_location(pix["25"], "emv: the location")
    elif "03" in pix and not ISPB.fullmatch(pix["03"]):
        raise _refusal("the ISPB in the Pix template (03) must be 8 digits or capital letters")
    return pix


def _read_recurrence_location(fields: Mapping[str, str]) -> str | None:
    locations = [template["25"] for template in _read_pix_templates(fields, "80", "99") if "25" in template]
    # The parties' choice among them is unknown.
    if len(locations) > 1:
        raise _refusal("offers more than one recurrence")
    for location in locations:
        check_location(location, "emv: the recurrence's location")
    return locations[0] if locations else None


def _read_reference_label(fields: Mapping[str, str]) -> str | None:
    label = _read_fields(fields["62"], "field 62").get("05") if "62" in fields else None
    if label is not None and not _READ_TXID.fullmatch(label):
        raise _refusal("the txid (62-05) must be 1 to 25 letters and digits, or ***")
    return label


def _find_label(fields: Mapping[str, str]) -> str | None:
    """The reference label of a dynamic code, which means nothing; ``None`` where it cannot be read."""
    try:
        return _read_reference_label(fields)
    except errors.InvalidQrCode:
        return None


def _kind_of(pix: Mapping[str, str], recurrence_location: str | None) -> Kind:
    if "25" in pix:
        return "dynamic"
    if "01" in pix:
        return "static"
    if recurrence_location is None:
        raise _refusal("names neither a key nor a location")
    return "recurrence"


def check_location(location: str, field: str) -> None:
    """Raise ``InvalidQrCode`` for a location that no code can have."""
    if len(location) > LOCATION_LENGTH_MAX or not _LOCATION.fullmatch(location):
        raise errors.InvalidQrCode(f"{field}: must be host/path of at most {LOCATION_LENGTH_MAX} characters, without a scheme")


def _format_tail(merchant_name: str, merchant_city: str, amount_cents: Cents | None, label: str) -> str:
    amount = "" if amount_cents is None else _format_field("54", money.format_reais(amount_cents))
    names = _format_names(merchant_name, merchant_city)
    return f"520400005303986{amount}5802BR{names}62{4 + len(label):02d}05{len(label):02d}{label}"


# Cached because they are the same in every code of a holder, and folding costs more than all the rest.
@lru_cache(1024)
def _format_names(merchant_name: str, merchant_city: str) -> str:
    name = _fold(merchant_name)[:25].rstrip() or "NAO INFORMADO"
    city = _fold(merchant_city)[:15].rstrip() or "NAO INFORMADA"
    return _format_field("59", name) + _format_field("60", city)


def _format_field(field_id: str, value: str) -> str:
    return f"{field_id}{len(value):02d}{value}"


def _fold(text: str) -> str:
    # NFD separates accents from letters; only printable ASCII stays, and runs of blanks become one.
    spaced = unicodedata.normalize("NFD", " ".join(text.split()))
    return " ".join("".join(character for character in spaced if " " <= character <= "~").split())


def _seal(text: str) -> str:
    unsealed = text + "6304"
    return unsealed + _crc(unsealed)


def _crc(text: str) -> str:
    """CRC-16/CCITT-FALSE over the UTF-8 bytes: polynomial 0x1021, start 0xFFFF, nothing reflected."""
    return f"{crc_hqx(text.encode(), 0xFFFF):04X}"


def _refusal(rule: str) -> errors.InvalidQrCode:
    return errors.InvalidQrCode(f"emv: {rule}")
