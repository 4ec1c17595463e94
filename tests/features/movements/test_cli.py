"""``pixconnect block`` as an operator uses it."""

import asyncio

from msgspec import structs

from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from support.command_line import CommandLine
from support.postgres import Addresses
from support.service import credit_report, open_holder, open_service

BLOCKS_COUNT = 60


async def block_money(database: Addresses) -> None:
    async with open_service(database) as service:
        await open_holder(service, funds_cents=100)
        court = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=70_000, held_cents=90)
        others = [
            structs.replace(court, reference=f"SEC-{number}", kind="security", wanted_cents=1, held_cents=0)
            for number in range(BLOCKS_COUNT)
        ]
        party, reported_at = credit_report(service).credit_party, service.clock.now()
        report = BlockReport(report_id="B1", party=party, blocks=(court, *others), reported_at=reported_at)
        await take_reports(service.context, [report])


def test_blocks_are_listed_by_kind_of_a_court_only_the_amount(database: Addresses, pixconnect: CommandLine) -> None:
    assert pixconnect.json("block", "list") == {"blocks": []}
    asyncio.run(block_money(database))
    everything = pixconnect.json("block", "list", "--holder-id", "1")["blocks"]
    assert len(everything) == BLOCKS_COUNT + 1
    (court,) = pixconnect.json("block", "list", "--kind", "judicial")["blocks"]
    assert court == dict(holder_id=1, kind="judicial", wanted_cents=70_000, held_cents=90, covered_cents=90)
    assert "PROC-77" not in pixconnect.run("block", "list").stdout
    assert pixconnect.json("block", "list", "--kind", "security", "--holder-id", "2") == {"blocks": []}
