"""A repetition has the same contents; other contents are a conflict."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.identifiers import fingerprint, was_made_by
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, QrCodeTransferRequest

PAYEE = Party(
    account_number="1001", account_type="CHECKING", branch="0001", ispb="99999004", name="Maria", tax_id="52998224725"
)
E2E = "E00000000202611200000abcdefghijk"
# The fingerprints of each request in versions 1 and 2, which may never change.
GOLDEN: list[tuple[Struct, str, str]] = [
    (
        ChargeRequest(amount_cents=1000, key="loja@demo.pix.example", external_id="order-1"),
        "ea7d89501f63f8a68b6bd3e9bff4fd55",
        "0286ba0c68ff39253fc46ccc4716efe7a7",
    ),
    (
        ChargeRequest(amount_cents=1000, key="loja@demo.pix.example", payer=Payer(name="Maria", tax_id="52998224725")),
        "6830ae91960b77a56d627f7ac9db5a22",
        "020bf04d7f6ee1632fa37a3d2e95b27e84",
    ),
    (
        KeyTransferRequest(amount_cents=2550, key="settle@sandbox.pix.example", key_type="EMAIL"),
        "c990a8401e5455c2253cc5573d8a13c8",
        "02b98d4d6df656a2379b774bf296ad8b66",
    ),
    (
        AccountTransferRequest(amount_cents=2550, credit_party=PAYEE),
        "de7b5b1e513d9794ae80f144f594b854",
        "021e865077f661d8c420c25ee3b0f94725",
    ),
    (
        QrCodeTransferRequest(amount_cents=2550, br_code="00020101"),
        "b67d84cce15c860e11ac76b27c532b1d",
        "024c4361f9ed21d3a1cb1077e9e62a30d3",
    ),
    (
        RefundRequest(end_to_end_id=E2E, amount_cents=500),
        "f34669329bc7cf9e63f6dc69c454a586",
        "0256e327f94df9971791e711678fd193d4",
    ),
    (
        RefundRequest(end_to_end_id=E2E, amount_cents=500, reason="FR01", description="broken"),
        "a9e0797ae31d97daf9ffd47314bb4100",
        "0299b0067f0a653fdca4eb02eb0c7eb039",
    ),
]

# In version 4, of requests whose rows hold all hashed members.
FOURTH = {
    "0286ba0c68ff39253fc46ccc4716efe7a7": "046f15dd8683cfc609fcbb16afa27e771e",
    "020bf04d7f6ee1632fa37a3d2e95b27e84": "040f3ac9dac9a9b569d7d9939d1d0c3b04",
}


def a_request(**changes: Any) -> ChargeRequest:
    return ChargeRequest(**{"amount_cents": 1, "key": "k", **changes})


def test_the_external_id_is_what_it_is_compared_under_and_no_part_of_it() -> None:
    assert fingerprint(a_request(external_id="a")) == fingerprint(a_request(external_id=None))


def test_everything_else_counts_as_it_was_sent() -> None:
    payer = Payer(name="A", tax_id="1")
    others = [
        a_request(amount_cents=2),
        a_request(key="K"),
        a_request(payer=payer),
        a_request(payer=Payer(name="A ", tax_id="1")),
        a_request(amount_cents=10**400),
    ]
    prints = {fingerprint(request) for request in (a_request(), *others)}
    assert len(prints) == len(others) + 1


def test_a_charge_is_hashed_as_its_row_has_it_and_as_it_was_sent() -> None:
    sent = a_request(key="529.982.247-25", payer=Payer(name='Ana \u00e9\u2028"\\/\x1f\x7f', tax_id="1"))
    name = 'Ana \u00e9\u2028\\"\\\\/\\u001f\x7f'
    kept = f'{{"amount_cents":1,"key":"52998224725","payer":{{"name":"{name}","tax_id":"1"}},"type":"charge"}}'
    digest = sha256(kept.encode()).digest()[:16]
    normal = a_request(key="52998224725", payer=sent.payer)
    assert fingerprint(normal) == b"\x04" + digest == fingerprint(sent)[:17]
    for one, other in [(sent, normal), (normal, sent)]:
        assert was_made_by(fingerprint(one), one)
        assert not was_made_by(fingerprint(one), other)
        # Version 3 had no text as it was sent.
        assert was_made_by(b"\x03" + digest, one)
    assert not was_made_by(b"\x03" + digest, a_request(key="52998224725"))


def test_defaults_count_as_if_they_had_been_sent() -> None:
    sent = RefundRequest(end_to_end_id="E", amount_cents=1, reason="MD06", description=None)
    assert fingerprint(sent) == fingerprint(RefundRequest(end_to_end_id="E", amount_cents=1))


def test_the_operation_counts() -> None:
    by_key = KeyTransferRequest(amount_cents=1, key="x", key_type="EMAIL")
    by_code = QrCodeTransferRequest(amount_cents=1, br_code="x")
    assert fingerprint(by_key) != fingerprint(by_code)


@pytest.mark.parametrize(("request_", "first", "second"), GOLDEN)
def test_what_is_stored_is_found_again_by_the_request_that_made_it(request_: Struct, first: str, second: str) -> None:
    assert fingerprint(request_).hex() == FOURTH.get(second, second)
    assert was_made_by(fingerprint(request_), request_)
    assert was_made_by(bytes.fromhex(second), request_)
    assert was_made_by(bytes.fromhex(first), request_)
    other = msgspec.structs.replace(request_, amount_cents=501)
    assert not was_made_by(bytes.fromhex(second), other)
    assert not was_made_by(bytes.fromhex(first), other)


@pytest.mark.parametrize("request_", [request_ for request_, _, _ in GOLDEN])
def test_a_request_may_gain_an_optional_field_and_keeps_its_fingerprint(request_: Struct) -> None:
    before = type(request_)
    tag = before.__struct_config__.tag
    later = msgspec.defstruct(
        before.__name__, [("note", str | None, None)], bases=(before,), frozen=True, kw_only=True, omit_defaults=True,
        tag=tag,
    )  # fmt: skip
    sent_yesterday = later(**msgspec.structs.asdict(request_))
    assert fingerprint(sent_yesterday) == fingerprint(request_)
    with_note = msgspec.structs.replace(sent_yesterday, note="n")
    for _, first, second in GOLDEN:
        assert not was_made_by(bytes.fromhex(first), with_note)
        assert not was_made_by(bytes.fromhex(second), with_note)


def test_every_request_and_every_record_in_it_leaves_out_defaults() -> None:
    for record in (*(type(request_) for request_, _, _ in GOLDEN), Payer, Party):
        assert record.__struct_config__.omit_defaults, record
