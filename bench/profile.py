"""Show the CPU of a life: by process, by PostgreSQL's statements, and by its functions.

    .venv/bin/python -m bench.profile                       transfers' lives, 64 at once
    .venv/bin/python -m bench.profile --in-flight 1         one alone: small batches, many statements
    .venv/bin/python -m bench.profile --life charge

A first run counts CPU by process. In a second one PostgreSQL logs the cost of each statement, which doubles all costs, so
only their proportions count. ``docs/guides/profile.md`` explains the output, and how to look inside a Python process.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.harness.installation import installed
from bench.harness.statement_costs import StatementCost, read_functions, read_statements, tell_costs
from bench.measures.end_to_end import CHARGE_TOLD_TWICE, TRANSFER_TOLD, pay_charge_told_twice, repeat_story, settle_transfer

LIVES = {"transfer": (settle_transfer, TRANSFER_TOLD), "charge": (pay_charge_told_twice, CHARGE_TOLD_TWICE)}
SHOWN_MAX = 20
TEXT_MAX = 96
WARM_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--life", choices=LIVES, default="transfer")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each of the two parts")
    parser.add_argument("--in-flight", type=int, default=64, help="lives at once")
    options = parser.parse_args()
    story, told = LIVES[options.life]
    with installed() as service:
        uvloop.run(repeat_story(service, story, told, WARM_S, options.in_flight))
        row = uvloop.run(repeat_story(service, story, told, options.seconds, options.in_flight))
        print(f"{row['lives']} lives, {row['cpu_us_each_in_all']:,.0f} us of CPU each:")
        for kind, cpu_us in sorted(row["cpu_us_each"].items(), key=lambda item: -item[1]):
            print(f"{cpu_us:10,.0f} us  {cpu_us / row['cpu_us_each_in_all']:4.0%}  {kind}")
        asyncio.run(tell_costs(service))
        uvloop.run(repeat_story(service, story, told, WARM_S, options.in_flight))
        log = service.home / "postgres.log"
        begins_at = log.stat().st_size
        row = uvloop.run(repeat_story(service, story, told, options.seconds, options.in_flight))
        statements = read_statements(_read_from(log, begins_at))
        _show("statements, of what they cost together", statements, row["lives"])
        _show("functions without what they call, since the beginning", asyncio.run(read_functions(service)), 0)


def _show(title: str, costs: Sequence[StatementCost], lives_count: int) -> None:
    in_all_us = sum(cost.in_all_us for cost in costs) or 1.0
    print(f"\n{title}:")
    print("  part  planning  us each  " + ("a life  " if lives_count else " calls  "))
    for cost in costs[:SHOWN_MAX]:
        each_us = cost.in_all_us / max(1, cost.count)
        often = f"{cost.count / lives_count:6.2f}" if lives_count else f"{cost.count:6}"
        planning = cost.planning_us / (cost.in_all_us or 1.0)
        print(f"{cost.in_all_us / in_all_us:6.1%}  {planning:8.0%}  {each_us:7,.0f}  {often}  {cost.text[:TEXT_MAX]}")


def _read_from(log: Path, begins_at: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(begins_at)
        return file.read().decode(errors="replace").splitlines()


if __name__ == "__main__":
    main()
