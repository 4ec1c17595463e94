"""Each kind of account is rehearsed at its simulated bank, recorded without secrets, and replayed from the recording."""

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.recording import (
    Redaction,
    RehearsalRecording,
    RehearsedStep,
    TakenExchange,
    judge_exchanges,
    redact_key,
)
from pixconnect.features.institutions.service.rehearsal import RehearsalTerms, walk
from support.account_there import AccountThere, make_account, open_account_there
from support.faces import ACCOUNT, KEY, Bank
from support.replayed import RECORDINGS, rehearse_again

# Other institutions that are only a profile behave like Sicredi.
NAMES = ("efi", "inter", "sicoob", "woovi", "sicredi")


async def record(there: AccountThere, name: str, taken: list[TakenExchange]) -> tuple[list[RehearsedStep], RehearsalRecording]:
    plan = RehearsalTerms(
        profile=read_profile(name), keys=there.account.keys, txid="rehearsed" + "a" * 23, refund_id="b" * 32,
        at=there.account.created_at, returns=True,
    )  # fmt: skip
    steps = await walk(there.institution, plan)
    redaction = Redaction(there.account, there.credential, taken)
    recording = RehearsalRecording(
        kind=there.account.kind, profile=name, environment="counterpart", options=(), made_at=plan.at, key=redact_key(0),
        txid=plan.txid, refund_id=plan.refund_id, refunds=True, steps=(),
        exchanges=[redaction.redact_exchange(each) for each in taken],
    )  # fmt: skip
    return steps, recording


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
async def test_a_face_follows_its_profile_and_so_does_its_recording(bank: Bank, name: str, tmp_path: Path) -> None:
    taken = list[TakenExchange]()
    number = "" if name in ("woovi", "sicredi") else ACCOUNT
    paid = await bank.be_paid(None, 500)
    async with open_account_there(bank, name, tmp_path, note=taken.append, account=number) as there:
        steps, recording = await record(there, name, taken)
    # The test client has every right, which a credential for receiving should not have.
    assert {step.step for step in steps if step.outcome == "differs"} <= {"permission send"}
    assert "the same refund again" in {step.step for step in steps} or name == "woovi"
    assert "returned once" in {step.step for step in steps}
    assert judge_exchanges(read_profile(name), recording.exchanges) == []
    text = msgspec.json.encode(recording).decode()
    for secret in (bank.issued.client_secret, there.credential.client_secret, KEY, there.account.tax_id):
        assert secret == "" or secret not in text
    assert "Maria" not in text
    assert paid in text
    replayed = await rehearse_again(
        msgspec.json.decode(text, type=RehearsalRecording), account="0" * len(number), tax_id="0" * 14
    )
    keyed = [structs.replace(step, step=step.step.replace(KEY, redact_key(0))) for step in steps]
    assert replayed == keyed


async def test_the_adapters_still_read_what_institutions_said() -> None:
    """There is no recording of an institution yet, so this proves nothing; see ``tests/vectors/recordings``."""
    for file in sorted(RECORDINGS.glob("*.json")):
        recording = msgspec.json.decode(file.read_bytes(), type=RehearsalRecording)
        found = [[step.step, step.outcome] for step in await rehearse_again(recording)]
        assert found == [list(step[:2]) for step in recording.steps[: len(found)]], file.name


def test_what_is_secret_or_of_people_is_replaced_and_keeps_its_form() -> None:
    account = make_account("sicredi", "https://127.0.0.1", keys=("loja@shop.example",), account="1001")
    redaction = Redaction(account, Credential(client_id="us-and-only-us", client_secret="never to be seen"))
    kept = dict[str, object](endToEndId="E99999999202607011500AAAAAAAAAAA", pix=[dict(valor="1.00", txid="a" * 32)])
    said = dict(
        access_token="t0ken",
        chave="loja@shop.example",
        pagador=dict(nome="Maria da Silva", cpf="52998224725"),
        conta="1001",
        detail="never to be seen by maria@home.example, 529.982.247-25",
        infoPagador="for Ana",
        **kept,
    )
    assert redaction.redact(said) == dict(
        access_token="redacted",
        chave="key0@pix.example",
        pagador=dict(nome="xxxxx xx xxxxx", cpf="00000000000"),
        conta="0000",
        detail="redacted by xxxxx@xxxx.xxxxxxx, 000.000.000-00",
        infoPagador="xxx xxx",
        **kept,
    )


def test_what_the_profile_has_otherwise_is_told() -> None:
    account = make_account("efi", "https://127.0.0.1")
    redaction = Redaction(account, Credential())
    taken = [
        TakenExchange(method="GET", target=f"/v2/cob/{'a' * 32}", sent=b"", status=202, content=b"{}"),
        TakenExchange(method="GET", target="/v2/pix", sent=b"", status=404, content=b'{"nome": "nunca_visto"}'),
    ]
    told = judge_exchanges(read_profile("efi"), [redaction.redact_exchange(each) for each in taken])
    assert [step.text for step in told] == [
        "answers 202, where the profile has 200",
        "404 is named nunca_visto, which the profile has not",
    ]
