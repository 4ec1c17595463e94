"""``pixconnect verify`` as an operator uses it."""

import asyncio
import json

import asyncpg

from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.store.proof.rules import RULES
from support.command_line import CommandLine
from support.postgres import Addresses
from support.service import open_holder, open_service


async def fund(database: Addresses) -> int:
    async with open_service(database) as service:
        return (await open_holder(service, funds_cents=1_000)).holder_id


async def take_a_cent(database: Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    await connection.execute("set session_replication_role = replica")
    await connection.execute("update balance set available_cents = 999, settlement_cents = 1")
    await connection.close()


def test_books_that_are_right_say_so(database: Addresses, pixconnect: CommandLine) -> None:
    asyncio.run(fund(database))
    told = pixconnect.json("verify", "--whole", "--again-after-s", "0")
    assert (told["rules"], told["broken"], told["holders"], told["findings"]) == (len(RULES), 0, 1, [])


def test_a_cent_that_is_gone_is_found_with_what_to_do(database: Addresses, pixconnect: CommandLine) -> None:
    holder_id = asyncio.run(fund(database))
    asyncio.run(take_a_cent(database))
    ended = pixconnect.run("verify", "--whole", "--again-after-s", "0", "--json")
    assert ended.returncode == ExitStatus.BROKEN == 7
    told = json.loads(ended.stdout)
    finding = next(each for each in told["findings"] if each["rule"] == "balance_is_sum")
    assert (finding["holder_id"], finding["expected"], finding["found"]) == (
        holder_id,
        "1000 0 0 0 -1000",
        "999 0 0 1 -1000",
    )
    assert finding["meaning"]
    assert finding["do"]
    assert told["broken"] == len({each["rule"] for each in told["findings"]})
    assert "balance_is_sum" in pixconnect.run("verify", "--rule", "balance_is_sum", "--again-after-s", "0").stdout
    assert "there is no rule" in pixconnect.refusal("verify", "--rule", "sums")
