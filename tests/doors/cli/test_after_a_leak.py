"""The guide after a leak is followed for a holder with two clients, one of which leaked."""

import re
import shlex
from pathlib import Path

from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from support.command_line import CommandLine
from support.postgres import Addresses
from support.records import outside_party
from support.service import make_charge, open_holder, open_service

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "after-a-leak.md"


def commands_of(chapter: str) -> list[str]:
    text = GUIDE.read_text().split(f"## {chapter}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if " activity " in line or " audit " in line]


async def test_what_the_guide_says_to_do_after_a_leak_finds_what_was_done(database: Addresses, pixconnect: CommandLine) -> None:
    async with open_service(database) as service:
        holder = await open_holder(service, funds_cents=1_000)
        made: dict[str, list[tuple[str, int]]] = {}
        for client_id in ("till", "leaked"):
            known = Caller(client_id=client_id, holder_id=holder.holder_id, scopes=holder.scopes, token_id=f"t-{client_id}")
            caller = known.asking("192.0.2.1" if client_id == "till" else "198.51.100.9", f"r-{client_id}")
            charge = await make_charge(service, caller, amount_cents=5)
            request = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
            sent = await transfer_usecases.start_transfer(service.context, caller, request)
            hook = EndpointRequest(url="http://127.0.0.1:9/", secret="s" * 32, event_types=["qrcode.pending"])
            added = await endpoint_usecases.create_endpoint(service.context, caller, hook)
            made[client_id] = [("charge", charge.id), ("transfer", sent.transfer.id), ("endpoint", added.id)]
    placed = dict(CLIENT_ID="leaked", DAY="2026-07-01", JTI="t-leaked")
    answers: list[list[tuple[str, int]]] = []
    lines = [*commands_of("A token"), *commands_of("A client's secret")]
    assert len(lines) == 5
    for line in lines:
        words = [placed.get(word, word) for word in shlex.split(line)[1:]]
        if words[0] == "audit":
            rows = pixconnect.json(*words)["entries"]
            assert ("client leaked", "endpoint add") in {(row["operator"], row["verb"]) for row in rows}
            continue
        # No verb made the client here; once deleted, it is found by its holder.
        found = pixconnect.json(*words, "--holder-id", str(holder.holder_id))["activity"]
        assert {(row["client_id"], row["token_id"], row["peer"]) for row in found} == {("leaked", "t-leaked", "198.51.100.9")}
        answers.append(sorted((row["kind"], row["id"]) for row in found))
    everything = sorted(made["leaked"])
    assert answers == [everything, everything, [made["leaked"][1]], [made["leaked"][2]]]
    (one,) = [each for each in pixconnect.json("find", str(made["till"][1][1]))["found"] if each["kind"] == "transfer"]
    assert (one["asked_for_by"]["client_id"], one["asked_for_by"]["peer"]) == ("till", "192.0.2.1")
