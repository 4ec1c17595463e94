"""The request of a transfer is the domain's own, with the names and limits of the API."""

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from pixconnect.doors.api.contract.charge import CreateChargeRequest
from pixconnect.doors.api.contract.transfer import (
    InitiatePixWithAccountDetailsRequest,
    InitiatePixWithKeyRequest,
    InitiatePixWithQRCodeRequest,
)
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.identifiers import IdempotentRequest, fingerprint
from pixconnect.kernel.rules.transfer import (
    NO_TERMS,
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    SendingTerms,
)

PARTY = {
    "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004", "name": "Maria",
    "tax_id": "52998224725",
}  # fmt: skip
TO_KEY: dict[str, Any] = {"key": "k", "key_type": "EMAIL"}
PAYER = {"name": "Maria", "tax_id": "52998224725"}
SENT: list[tuple[type[Struct], dict[str, object], IdempotentRequest]] = [
    (
        CreateChargeRequest,
        {"amount": 5, "key": "k", "external_id": "o", "payer": PAYER},
        ChargeRequest(amount_cents=5, key="k", payer=Payer(**PAYER)),
    ),
    (InitiatePixWithKeyRequest, {"amount": 5, **TO_KEY}, KeyTransferRequest(amount_cents=5, **TO_KEY)),
    (
        InitiatePixWithAccountDetailsRequest,
        {"amount": 5, "credit_party": PARTY},
        AccountTransferRequest(amount_cents=5, credit_party=msgspec.convert(PARTY, Party)),
    ),
    (InitiatePixWithQRCodeRequest, {"amount": 5, "emv": "c"}, QrCodeTransferRequest(amount_cents=5, br_code="c")),
    (InitiatePixWithQRCodeRequest, {"amount": 5, "emv": " c\r\n"}, QrCodeTransferRequest(amount_cents=5, br_code="c")),
]


@pytest.mark.parametrize(("kind", "body", "wanted"), SENT)
def test_what_was_sent_has_the_fingerprint_of_what_the_domain_calls_it(
    kind: type[Struct], body: dict[str, object], wanted: IdempotentRequest
) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(body), type=kind)
    assert isinstance(sent, type(wanted))
    assert fingerprint(sent) == fingerprint(wanted)


@pytest.mark.parametrize(("kind", "body", "wanted"), SENT)
def test_callers_do_not_know_our_names(kind: type[Struct], body: dict[str, object], wanted: IdempotentRequest) -> None:
    for unknown in ("amount_cents", "type", "operation", "br_code"):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.json.decode(msgspec.json.encode(body | {unknown: "x"}), type=kind)


TO_KEY = "/v1/connect/transfer/key"
BY_KEY = {"amount": 5, "key": "k", "key_type": "EMAIL"}


@pytest.mark.parametrize(
    ("headers", "terms"),
    [
        ({}, NO_TERMS),
        ({"X-Payee-Tax-Id": " 529.982.247-25 "}, SendingTerms(payee_tax_id="52998224725")),
        ({"x-payee-tax-id": "12ABC34501DE35"}, SendingTerms(payee_tax_id="12ABC34501DE35")),
    ],
)
async def test_a_key_owner_may_be_named(api: Any, use_cases: Any, headers: dict[str, str], terms: SendingTerms) -> None:
    await api.post(TO_KEY, BY_KEY, headers=headers)
    [(name, (_, _, _, asked))] = use_cases.asked
    assert (name, asked) == ("start_transfer", terms)


@pytest.mark.parametrize(
    "named", ["", "52998224724", "00000000000", "Maria", "529982247255", "52998224725, 52998224725", "\u00e9"]
)
async def test_an_owner_who_can_be_nobody_is_refused(api: Any, use_cases: Any, named: str) -> None:
    refused = await api.post(TO_KEY, BY_KEY, headers={"X-Payee-Tax-Id": named})
    assert (refused.status, refused.code) == (400, "BAD_REQUEST")
    assert refused.message == "X-Payee-Tax-Id: must be a CPF or a CNPJ with right check digits"
    assert use_cases.asked == []
