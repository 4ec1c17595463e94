"""QR codes: published ones, codes that break one rule each, and random ones."""

import doctest
import json
import string
from binascii import crc_hqx
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pixconnect.kernel.rules import br_code, holder, money
from pixconnect.platform.base import errors

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "br_codes.json").read_text())
VALID = [row for row in VECTORS if row["kind"] != "invalid"]
INVALID = [row for row in VECTORS if row["kind"] == "invalid"]

ARABIC_ZERO = "\N{ARABIC-INDIC DIGIT ZERO}"  # a digit for str.isdigit and int, but not in a code
LETTERS = string.ascii_letters + string.digits
TOKENS = st.text(LETTERS, min_size=1, max_size=40)
LOCATIONS = st.builds(lambda host, port, path: f"{host}{port}/{path}", TOKENS, st.sampled_from(["", ":8080"]), TOKENS)
LOCATIONS = LOCATIONS.filter(lambda location: len(location) <= 77)
KEYS = st.sampled_from(
    ["52998224725", "12ABC34501DE35", "+5561988887777", "pix@bcb.gov.br", "123e4567-e12b-12d1-a456-426655440000"]
)
NAMES = st.text(max_size=60)
AMOUNTS = st.integers(money.AMOUNT_MIN_CENTS, money.AMOUNT_MAX_CENTS)


def seal(text: str) -> str:
    return f"{text}6304{crc_hqx(f'{text}6304'.encode(), 0xFFFF):04X}"


def row_of(fields: dict[str, str]) -> str:
    return "".join(f"{field_id}{len(value):02d}{value}" for field_id, value in fields.items())


def static_code(*, pix: dict[str, str] | None = None, label: str = "***", **changes: str | None) -> str:
    """A valid static code; ``f54="1.00"`` sets a field and ``f52=None`` leaves it out."""
    fields: dict[str, str | None] = {
        "00": "01",
        "26": row_of({"00": "br.gov.bcb.pix", "01": "pix@bcb.gov.br"} if pix is None else pix),
        "52": "0000",
        "53": "986",
        "58": "BR",
        "59": "LOJA",
        "60": "RECIFE",
        "62": row_of({"05": label}),
    }
    fields |= {name.removeprefix("f"): value for name, value in changes.items()}
    return seal(row_of({field_id: value for field_id, value in fields.items() if value is not None}))


def is_refused(text: str, words: str) -> None:
    with pytest.raises(errors.InvalidQrCode, match=words):
        br_code.parse_br_code(text)


@pytest.mark.parametrize("row", VALID, ids=lambda row: row["emv"][-4:])
def test_a_published_code_is_read_as_its_source_says(row: dict[str, Any]) -> None:
    code, expected = br_code.parse_br_code(row["emv"]), row["expect"]
    amount = expected["amount"]
    told = row["kind"], expected["key"], expected["url"], expected["rec_url"]
    assert (code.kind, code.key, code.location, code.recurrence_location) == told
    assert (code.description, code.facilitator_ispb) == (expected["additional_info"], expected["fss"])
    assert code.is_single_use is (expected["point_of_initiation"] == "12")
    assert code.amount_cents == (None if amount is None else br_code.parse_amount(amount))
    assert (code.merchant_category, code.merchant_name, code.merchant_city, code.postal_code, code.reference_label) == (
        expected["mcc"], expected["merchant_name"], expected["merchant_city"], expected["postal_code"],
        expected["txid"],
    )  # fmt: skip


@pytest.mark.parametrize("row", [row for row in VALID if row["kind"] == "static"], ids=lambda row: row["emv"][-4:])
def test_the_key_of_a_published_code_is_judged_apart_from_the_code(row: dict[str, Any]) -> None:
    if row["expect"]["key_valid"]:
        assert holder.parse_pix_key(row["expect"]["key"]).key_type == row["expect"]["key_type"]
    else:
        with pytest.raises(errors.InvalidPixKey):
            holder.parse_pix_key(row["expect"]["key"])


@pytest.mark.parametrize("row", INVALID, ids=lambda row: row["emv"][-4:])
def test_a_published_code_that_is_wrong_is_refused(row: dict[str, Any]) -> None:
    is_refused(row["emv"], "CRC" if "crc_mismatch" in row["expect"]["error"] else "emv: ")


def test_we_write_the_dynamic_example_of_the_manual() -> None:
    location = "pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
    assert br_code.format_dynamic_br_code(location, "Fulano de Tal", "BRASILIA") == (
        "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
        "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
    )


def test_we_write_the_static_example_of_the_manual() -> None:
    assert br_code.format_static_br_code("123e4567-e12b-12d1-a456-426655440000", "Fulano de Tal", "BRASILIA") == (
        "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR"
        "5913Fulano de Tal6008BRASILIA62070503***63041D3D"
    )


def test_the_examples_of_the_page_on_br_codes_hold() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanations" / "br-code.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried > 0


def test_the_code_that_the_others_are_made_from_is_valid() -> None:
    assert br_code.parse_br_code(static_code()).key == "pix@bcb.gov.br"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"f00": "02"}, "field 00 must be 01"),
        ({"f01": "13"}, "field 01 must be 11 or 12"),
        ({"f52": None}, "field 52 is missing"),
        ({"f52": "000"}, "field 52 must be 4 digits"),
        ({"f52": ARABIC_ZERO * 4}, "field 52 must be 4 digits"),
        ({"f53": "840"}, "field 53 must be 986"),
        ({"f54": "1,00"}, "field 54 must be an amount"),
        ({"f54": "1.000"}, "field 54 must be an amount"),
        ({"f54": "-1.00"}, "field 54 must be an amount"),
        ({"f54": "1e3"}, "field 54 must be an amount"),
        ({"f54": "12345678901"}, "field 54 must be an amount"),
        ({"f54": f"{ARABIC_ZERO}.00"}, "field 54 must be an amount"),
        ({"f58": "br"}, "field 58 must be BR"),
        ({"f59": None}, "field 59 is missing"),
        ({"f59": "N" * 26}, "field 59 must be 1 to 25"),
        ({"f59": "São"}, "field 59 must be 1 to 25 printable ASCII"),
        ({"f60": "C" * 16}, "field 60 must be 1 to 15"),
        ({"label": "A" * 26}, "62-05"),
        ({"label": "**"}, "62-05"),
        ({"label": "txid👀"}, "62-05"),
        ({"f62": "0503**"}, "field 62 is cut short"),
        ({"f62": "0503***0503***"}, "field 62 has field 05 twice"),
        ({"f26": None}, "one Pix template.* has 0"),
        ({"pix": {"00": "br.gov.bcb.spi", "01": "x"}}, "one Pix template.* has 0"),
        ({"f27": row_of({"00": "BR.GOV.BCB.PIX", "01": "x"})}, "one Pix template.* has 2"),
        ({"f26": "0014br.gov.bcb.pix0199x"}, "field 26 is cut short"),
        ({"pix": {"00": "br.gov.bcb.pix"}}, "names neither a key nor a location"),
        ({"pix": {"00": "br.gov.bcb.pix", "01": "x", "25": "pix.example/x"}}, "excludes a key"),
        ({"pix": {"00": "br.gov.bcb.pix", "02": "x", "25": "pix.example/x"}}, "excludes a key"),
        ({"pix": {"00": "br.gov.bcb.pix", "01": "x", "03": "1234567"}}, "the ISPB"),
        ({"f80": row_of({"00": "br.gov.bcb.pix", "25": "http://x/y"})}, "the recurrence's location"),
        (
            {
                "f80": row_of({"00": "br.gov.bcb.pix", "25": "pix.example/a"}),
                "f81": row_of({"00": "br.gov.bcb.pix", "25": "pix.example/b"}),
            },
            "more than one recurrence",
        ),
    ],
)
def test_a_code_that_breaks_one_rule_is_refused_with_that_rule(changes: dict[str, Any], words: str) -> None:
    is_refused(static_code(**changes), words)


@pytest.mark.parametrize(
    "location",
    [
        "https://pix.example/x",
        "//pix.example/x",
        "pix.example",
        "pix.example/",
        "pix.example//",
        "/x",
        "user@pix.example/x",
        "pix.example/a b",
        "pix.example/x?y=1",
        "pix.example/x#y",
        "pix.example\\x/y",
        "pix.exãmple/x",
        "-pix.example/x",
        "pix.example:/x",
        "pix.example:123456/x",
    ],
)
def test_a_location_that_is_not_host_and_path_is_refused(location: str) -> None:
    is_refused(static_code(pix={"00": "br.gov.bcb.pix", "25": location}), "the location: must be host/path")
    with pytest.raises(errors.InvalidQrCode, match=r"^location: must be host/path"):
        br_code.format_dynamic_br_code(location, "Loja", "Recife")


@pytest.mark.parametrize("location", ["127.0.0.1:8080/qr/x", "[::1]:8080/qr/x", "PIX.EXAMPLE/QR/X=", "pix.example/a/b/"])
def test_a_location_may_have_a_port_an_address_or_capitals(location: str) -> None:
    assert br_code.parse_br_code(br_code.format_dynamic_br_code(location, "Loja", "Recife")).location == location


def test_a_location_has_at_most_77_characters() -> None:
    longest = "pix.example/" + "x" * 65
    assert br_code.parse_br_code(br_code.format_dynamic_br_code(longest, "Loja", "Recife")).location == longest
    with pytest.raises(errors.InvalidQrCode, match="at most 77"):
        br_code.format_dynamic_br_code(longest + "x", "Loja", "Recife")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must end in field 63"),
        ("6304", "must end in field 63"),
        ("630468C9", "the CRC is wrong"),
        (seal(""), "field 00 must come first"),
        (seal("0102120002015204000053039865802BR"), "field 00 must come first"),
        (seal("000201" + "5204000053039865802BR5404") + "x", "must end in field 63"),
        (static_code()[:50] + "\n" + static_code()[50:], r"printable text, and has U\+000A at character 51"),
        (static_code().lower(), "CRC is wrong"),
        (seal("0002010000"), "no field id and length"),
        (seal("000201" + f"{ARABIC_ZERO}{ARABIC_ZERO}04abcd"), "no field id and length"),
        (seal("000201" + "26+4abcd"), "no field id and length"),
        (seal("000201" + "26 4abcd"), "no field id and length"),
        (seal("000201" + "000201"), "field 00 twice"),
        (seal("000201\x00"), "printable"),
        ("\ud800" * 12, "printable"),
        ("\u202e" + static_code(), "printable"),
    ],
)
def test_a_text_that_is_no_row_of_fields_is_refused(text: str, words: str) -> None:
    is_refused(text, words)


def test_the_crc_must_be_a_field_and_not_the_end_of_another() -> None:
    text = seal("0002019908")  # field 99 swallows the CRC
    assert text.endswith(f"99086304{text[-4:]}")
    is_refused(text, "field 63 last")


def test_a_code_has_at_most_512_bytes() -> None:
    def code_of(length: int) -> str:
        fillers = {"f80": "x" * 99, "f81": "x" * 99, "f82": "x" * 99}
        missing = length - len(static_code(**fillers)) - 4
        return static_code(**fillers, f83="x" * missing)

    assert len(code_of(512)) == 512
    assert br_code.parse_br_code(code_of(512)).kind == "static"
    is_refused(code_of(513), "at most 512 bytes")
    wide = static_code(f80="é" * 99, f81="é" * 99, f82="é" * 9)
    assert len(wide) < 512 < len(wide.encode())
    is_refused(wide, "at most 512 bytes")


@pytest.mark.parametrize("before", ["", " ", "\n", "\ufeff", "\u200b ", "\u2060 \u200f"])
@pytest.mark.parametrize("behind", ["", "\n", "\r\n", " \t", "\xa0", "\u200b"])
def test_what_people_copy_with_a_code_does_not_matter(before: str, behind: str) -> None:
    assert br_code.parse_br_code(before + static_code() + behind) == br_code.parse_br_code(static_code())


def test_a_crc_may_be_in_small_letters() -> None:
    text = next(row["emv"] for row in VALID if not row["emv"][-4:].isdigit())
    assert br_code.parse_br_code(text[:-4] + text[-4:].lower()) == br_code.parse_br_code(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"label": "**"}, {"label": "A" * 32}, {"label": "txid👀"}, {"f62": "0503**"}, {"f62": None}, {"f54": "10.000"},
        {"f54": "1,00"}, {"f59": "N" * 33}, {"f59": "São"}, {"f59": None}, {"f60": "C" * 16}, {"f60": None},
    ],
)  # fmt: skip
def test_of_a_dynamic_code_what_its_payload_says_is_not_judged(changes: dict[str, Any]) -> None:
    pix = {"00": "br.gov.bcb.pix", "25": "pix.example/x"}
    code = br_code.parse_br_code(static_code(pix=pix, **changes))
    assert (code.kind, code.location, code.fixed_amount_cents, code.txid) == ("dynamic", "pix.example/x", None, None)
    is_refused(static_code(pix=pix, f58="AR"), "field 58 must be BR")


def test_a_length_that_counts_bytes_is_named_by_its_field() -> None:
    counted = static_code(f60="Maceió")
    is_refused(counted, "field 60 must be 1 to 15 printable ASCII")
    is_refused(seal(counted.replace("6006Maceió", "6007Maceió")[:-8]), "field 60 has a letter with an accent, and a length")


def test_the_name_of_the_scheme_is_found_in_any_case_and_any_template() -> None:
    other = row_of({"00": "BR.COM.OUTRO", "01": "1"})
    ours = row_of({"01": "pix@bcb.gov.br", "00": "Br.Gov.Bcb.Pix"})
    assert br_code.parse_br_code(static_code(f26=other, f51=ours)).key == "pix@bcb.gov.br"


def test_templates_of_others_are_not_looked_into() -> None:
    assert br_code.parse_br_code(static_code(f27="nonsense", f80="nonsense", f64="0002ZH0104最佳运输")).kind == "static"


def test_lengths_count_characters_and_the_crc_counts_bytes() -> None:
    code = br_code.parse_br_code(static_code(pix={"00": "br.gov.bcb.pix", "01": "pix@bcb.gov.br", "02": "Cobrança"}))
    assert code.description == "Cobrança"


def test_a_code_without_a_field_62_has_no_txid() -> None:
    code = br_code.parse_br_code(static_code(f62=None))
    assert (code.reference_label, code.txid) == (None, None)


def test_three_stars_are_no_txid() -> None:
    assert br_code.parse_br_code(static_code(label="***")).txid is None
    assert br_code.parse_br_code(static_code(label="RP12345678-2019")).txid == "RP12345678-2019"


def test_a_dynamic_code_says_neither_txid_nor_amount() -> None:
    pix = {"00": "br.gov.bcb.pix", "25": "pix.example/x"}
    code = br_code.parse_br_code(static_code(pix=pix, label="abc", f54="1.00"))
    assert (code.txid, code.fixed_amount_cents) == (None, None)
    assert (code.reference_label, code.amount_cents) == ("abc", 100)


def test_an_amount_of_zero_lets_the_payer_choose() -> None:
    assert br_code.parse_br_code(static_code(f54="0.00")).fixed_amount_cents is None
    assert br_code.parse_br_code(static_code(f54="0.01")).fixed_amount_cents == 1
    assert br_code.parse_br_code(static_code()).fixed_amount_cents is None


@pytest.mark.parametrize(
    ("text", "cents"),
    [("106.07", 10607), ("0.9", 90), ("10", 1000), ("10.", 1000), ("0", 0), ("9999999999.99", 999_999_999_999)],
)
def test_an_amount_is_read_in_cents(text: str, cents: int) -> None:
    assert br_code.parse_amount(text) == cents


@pytest.mark.parametrize(
    "text", ["", ".", ".50", "1,00", "1.234", "+1", " 1", "1 ", "1\n", "1_0", ARABIC_ZERO, "NaN", "1" * 11]
)
def test_an_amount_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidQrCode, match="amount"):
        br_code.parse_amount(text)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("São João & Irmãos Ltda.", "Sao Joao & Irmaos Ltda."),
        ("Padaria\tdo \u00a0 Zé\n", "Padaria do Ze"),
        ("A" * 24 + " B", "A" * 24),
        ("株式会社", "NAO INFORMADO"),
        ("", "NAO INFORMADO"),
        ("\x00\u202e", "NAO INFORMADO"),
        ("Ação 株 Ltda", "Acao Ltda"),
    ],
)
def test_a_name_is_folded_to_what_a_code_can_carry(name: str, written: str) -> None:
    assert br_code.parse_br_code(br_code.format_dynamic_br_code("pix.example/x", name, "Recife")).merchant_name == written


def test_a_static_code_carries_what_it_was_given() -> None:
    text = br_code.format_static_br_code(
        "pix@bcb.gov.br", "Loja", "Recife", amount_cents=1234, txid="Pedido1", description="Pão  de\nqueijo"
    )
    code = br_code.parse_br_code(text)
    assert (code.fixed_amount_cents, code.txid, code.description) == (1234, "Pedido1", "Pao de queijo")


@pytest.mark.parametrize("key", ["PIX@bcb.gov.br", "529.982.247-25", "123E4567-E12B-12D1-A456-426655440000", "11111111111"])
def test_a_static_code_is_written_for_a_normalised_and_valid_key_only(key: str) -> None:
    with pytest.raises(errors.InvalidPixKey):
        br_code.format_static_br_code(key, "Loja", "Recife")


@pytest.mark.parametrize("txid", ["", "***", "a" * 26, "a-b", "é", "a\n"])
def test_a_static_code_is_written_with_a_txid_of_letters_and_digits_only(txid: str) -> None:
    with pytest.raises(errors.InvalidQrCode, match=r"^txid: "):
        br_code.format_static_br_code("pix@bcb.gov.br", "Loja", "Recife", txid=txid)


@pytest.mark.parametrize("amount_cents", [0, -1, money.AMOUNT_MAX_CENTS + 1])
def test_a_static_code_is_written_with_an_amount_that_can_be_paid_only(amount_cents: int) -> None:
    with pytest.raises(errors.AmountOutOfRange):
        br_code.format_static_br_code("pix@bcb.gov.br", "Loja", "Recife", amount_cents=amount_cents)


def test_a_description_has_the_room_that_the_key_leaves() -> None:
    key = "123e4567-e12b-12d1-a456-426655440000"
    code = br_code.parse_br_code(br_code.format_static_br_code(key, "Loja", "Recife", description="x" * 37))
    assert code.description == "x" * 37
    with pytest.raises(errors.InvalidQrCode, match="only 37 characters fit"):
        br_code.format_static_br_code(key, "Loja", "Recife", description="x" * 38)
    longest = "a" * 65 + "@example.com"
    with pytest.raises(errors.InvalidQrCode, match="only 0 characters fit"):
        br_code.format_static_br_code(longest, "Loja", "Recife", description="x")


def is_well_written(text: str) -> None:
    assert text.isascii()
    assert len(text) <= br_code.BR_CODE_LENGTH_MAX
    ids, at = [], 0
    while at < len(text):
        ids.append(text[at : at + 2])
        at += 4 + int(text[at + 2 : at + 4])
    assert ids[-1] == "63"
    assert ids[:-1] == sorted(set(ids[:-1]))


@given(LOCATIONS, NAMES, NAMES)
def test_a_written_dynamic_code_reads_back(location: str, name: str, city: str) -> None:
    text = br_code.format_dynamic_br_code(location, name, city)
    is_well_written(text)
    code = br_code.parse_br_code(text)
    assert (code.kind, code.location, code.recurrence_location, code.is_single_use) == ("dynamic", location, None, True)
    assert (code.amount_cents, code.reference_label) == (None, "***")


@given(
    KEYS,
    NAMES,
    NAMES,
    st.none() | AMOUNTS,
    st.none() | st.text(LETTERS, min_size=1, max_size=25),
    st.none() | st.text(max_size=30),
)
def test_a_written_static_code_reads_back(
    key: str, name: str, city: str, amount_cents: int | None, txid: str | None, description: str | None
) -> None:
    text = br_code.format_static_br_code(key, name, city, amount_cents=amount_cents, txid=txid, description=description)
    is_well_written(text)
    code = br_code.parse_br_code(text)
    assert (code.kind, code.key, code.recurrence_location, code.is_single_use) == ("static", key, None, False)
    assert (code.fixed_amount_cents, code.txid) == (amount_cents, txid)


@settings(max_examples=500)
@given(st.sampled_from([row["emv"] for row in VALID]), st.integers(0, 600), st.characters())
@example(VALID[0]["emv"], 600, "é")
def test_one_changed_character_is_refused_or_reads_as_something_else(text: str, place: int, character: str) -> None:
    at = place % len(text)
    changed = text[:at] + character + text[at + 1 :]
    if changed.upper() == text.upper() and (changed == text or at >= len(text) - 4):
        return
    # A CRC of 16 bits finds every change inside 16 bits, which one ASCII character is.
    try:
        code = br_code.parse_br_code(changed)
    except errors.InvalidQrCode:
        return
    assert not character.isascii()
    assert code != br_code.parse_br_code(text)


def test_every_ascii_character_in_every_place_is_refused() -> None:
    text = br_code.format_dynamic_br_code("pix.example/x", "Loja", "Recife")
    for at in range(len(text)):
        for character in map(chr, range(128)):
            if character != text[at] and (character.upper() != text[at] or at < len(text) - 4):
                with pytest.raises(errors.InvalidQrCode):
                    br_code.parse_br_code(text[:at] + character + text[at + 1 :])


@given(st.text() | st.binary(max_size=600).map(lambda octets: octets.decode("latin-1")))
def test_no_text_raises_anything_else(text: str) -> None:
    with pytest.raises(errors.InvalidQrCode):
        br_code.parse_br_code(text)
    with pytest.raises(errors.InvalidQrCode):
        br_code.parse_br_code(seal(text.encode("utf-8", "replace").decode()))


FIELDS = st.dictionaries(
    st.sampled_from(["00", "01", "26", "27", "51", "52", "53", "54", "58", "59", "60", "61", "62", "80", "99"]),
    st.text(min_size=1, max_size=99)
    | st.builds(
        row_of,
        st.dictionaries(
            st.sampled_from(["00", "01", "02", "03", "05", "25"]),
            st.sampled_from(["br.gov.bcb.pix", "pix.example/x", "12345678", "***"]) | st.text(min_size=1, max_size=30),
        ),
    ).filter(bool),
)


@settings(max_examples=300)
@given(FIELDS)
@pytest.mark.long
def test_no_row_of_fields_raises_anything_else(fields: dict[str, str]) -> None:
    changes = {f"f{field_id}": value.encode("utf-8", "replace").decode() for field_id, value in fields.items()}
    try:
        code = br_code.parse_br_code(static_code(**changes))
    except errors.InvalidQrCode:
        return
    assert code.key is None or code.location is None
