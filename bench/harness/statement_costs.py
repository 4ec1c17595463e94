"""CPU of each statement and function in PostgreSQL, from its own log: the wheel has no ``pg_stat_statements``.

PostgreSQL can log the resources of each protocol message. That doubles all costs and writes personal data into the log,
so only proportions can be compared, and the service must be used for nothing else.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from bench.harness.installation import Installation

_SETTINGS = (
    "log_statement_stats = on", "log_min_messages = 'log'", "log_min_error_statement = 'log'",
    "log_error_verbosity = 'default'", "track_functions = 'all'",
)  # fmt: skip
_END_OTHERS = """
select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
_FUNCTIONS = """
select funcname as name, calls as count, self_time * 1000 as self_us from pg_stat_user_functions
order by self_time desc
"""
_LINE: Final = re.compile(r"^\d{4}-\d\d-\d\d \S+ UTC \[\d+\] (\w+):  (.*)$")
_USED: Final = re.compile(r"([\d.]+) s user, ([\d.]+) s system, [\d.]+ s elapsed")
_MESSAGES: Final = ("PARSE", "BIND", "EXECUTE", "QUERY")


class StatementCost(Struct, kw_only=True):
    """A statement, or a function without what it calls."""

    text: str
    count: int = 0
    planning_us: float = 0.0  # reading and planning: messages ``PARSE`` and ``BIND``
    running_us: float = 0.0  # ``EXECUTE``, or ``QUERY`` where it is sent as plain text

    @property
    def in_all_us(self) -> float:
        return self.planning_us + self.running_us


async def tell_costs(service: Installation, settings: Sequence[str] = _SETTINGS) -> None:
    """Make the service's PostgreSQL log costs, or as these settings say, on new connections from now on."""
    connection = await service.connect()
    for setting in settings:
        await connection.execute(f"alter database pixconnect set {setting}")
    await connection.execute(_END_OTHERS)
    await connection.close()
    # Until the service has connected again.
    await asyncio.sleep(3)


async def read_functions(service: Installation) -> list[StatementCost]:
    """Functions without what they call, mostly triggers; the most expensive first."""
    connection = await service.connect()
    rows = await connection.fetch(_FUNCTIONS)
    await connection.close()
    return [StatementCost(text=row["name"], count=row["count"], running_us=row["self_us"]) for row in rows]


def read_statements(log: Iterable[str]) -> list[StatementCost]:
    """Sum up a log by statement; the most expensive first."""
    costs: dict[str, StatementCost] = {}
    message, used_us, text = "", 0.0, list[str]()
    is_statement = False

    def close() -> None:
        if message and text:
            words = " ".join(" ".join(text).split())
            cost = costs.setdefault(words, StatementCost(text=words))
            if message in {"EXECUTE", "QUERY"}:
                cost.count += 1
                cost.running_us += used_us
            else:
                cost.planning_us += used_us

    for line in log:
        found = _LINE.match(line)
        if found is None:
            if is_statement:
                text.append(line)
            elif used := _USED.search(line):
                used_us = 1e6 * (float(used[1]) + float(used[2]))
            continue
        level, rest = found.groups()
        is_statement = level == "STATEMENT"
        if is_statement:
            text = [rest]
        elif level == "LOG":
            close()
            first = rest.partition(" ")[0]
            message, used_us, text = first if first in _MESSAGES and rest.endswith("STATISTICS") else "", 0.0, []
    close()
    return sorted(costs.values(), key=lambda cost: cost.in_all_us, reverse=True)
