"""``pixconnect report`` and ``pixconnect transfer`` as an operator uses them."""

import asyncio
from datetime import timedelta

import msgspec

from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.kernel.rules.refund import RefundRequest
from support.command_line import CommandLine
from support.postgres import Addresses
from support.records import ISPB
from support.service import STARTED_AT, FakeClock, credit_report, no_fence, open_holder, open_service

FORGOTTEN = f"E{ISPB}202607011500abcdefghijk"


async def keep_two(database: Addresses) -> None:
    async with open_service(database) as service:
        for name in (FORGOTTEN, f"{FORGOTTEN[:-1]}l"):
            await take_reports(service.context, [SettledReport(report_id="r7", id=name, settled_at=STARTED_AT)])


def test_a_report_is_listed_shown_and_closed(database: Addresses, pixconnect: CommandLine) -> None:
    assert pixconnect.json("report", "list") == {"reports": []}
    asyncio.run(keep_two(database))
    newer, older = pixconnect.json("report", "list")["reports"]
    assert (older["kind"], older["reason"], older["name"]) == ("settled", "unknown_order", FORGOTTEN)
    assert (older["rail_report_id"], older["seen_count"], newer["id"] > older["id"]) == ("r7", 1, True)
    shown = pixconnect.json("report", "show", str(older["id"]))
    assert msgspec.json.decode(shown["report"])["id"] == FORGOTTEN
    assert "reason" in pixconnect.run("report", "close", str(older["id"])).stderr
    closed = pixconnect.json("report", "close", str(older["id"]), "--reason", "booked by hand, ticket 12")
    assert (closed["close_reason"], "@" in closed["closed_by"]) == ("booked by hand, ticket 12", True)
    assert [one["id"] for one in pixconnect.json("report", "list")["reports"]] == [newer["id"]]
    assert len(pixconnect.json("report", "list", "--all")["reports"]) == 2
    assert "closed already" in pixconnect.refusal("report", "close", "--id", str(older["id"]), "--reason", "again")
    assert "there is none" in pixconnect.refusal("report", "show", "--report-id", "404")
    assert "reason: must have" in pixconnect.refusal("report", "close", str(newer["id"]), "--reason", " ")


async def hand_over_a_refund(database: Addresses) -> str:
    # The command line uses the real time.
    async with open_service(database, clock=FakeClock(STARTED_AT - timedelta(days=1))) as service:
        caller = await open_holder(service)
        report = credit_report(service)
        await receive_credit(service.context, report)
        asked = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
        refund = await refund_usecases.start_refund(service.context, caller, asked)
        await move_due(service.context, no_fence, range(256), service.clock.now(), service.clock.now(), 10)
        return refund.return_id


_NONE = "transfers, refunds, accepted, charges: none\n"


def test_nothing_unresolved_is_said_and_an_unknown_id_refused(database: Addresses, pixconnect: CommandLine) -> None:
    found = pixconnect.run("find", "--unresolved")
    assert (found.stdout, "no worker is running" in found.stderr) == (_NONE, True)
    return_id = asyncio.run(hand_over_a_refund(database))
    # Known, and silent for less long than asked for.
    lately = pixconnect.run("find", "--unresolved", return_id, "--silent-for-s", "999999999")
    assert (lately.returncode, lately.stdout) == (0, _NONE)
    complaint = pixconnect.refusal("find", "--unresolved", "D" + "0" * 31)
    assert f"ANY-ID: there is no transfer or refund D{'0' * 31}" in complaint
    assert "ANY-ID: " in pixconnect.refusal("find", "--unresolved", "E1")
