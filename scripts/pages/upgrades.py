"""``docs/reference/upgrades.md``: what each step of ``migrate`` asks of an operator, read out of the steps themselves."""

import re
from typing import Final

from pixconnect.foundation.migrations import Migration, read_migrations

_VALIDATED: Final = re.compile(r"alter\s+table\s+(\w+)\s+validate\s+constraint", re.IGNORECASE)
_INDEXED: Final = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+(?:if not exists\s+)?\w+\s+on\s+(\w+)", re.IGNORECASE
)
_DROPPED: Final = re.compile(r"drop\s+index\s+concurrently\s+(?:if exists\s+)?(\w+)", re.IGNORECASE)


def write_page() -> str:
    """The page."""
    lines = [
        "# What upgrades ask of you",
        "",
        "The steps of `migrate` that take long or judge rows of before, and what each does. Written by `make docs`.",
        "",
        "Each step is named here that takes as long as reading a table, or that",
        "holds rows of before against a rule; all others take a moment, whatever the tables hold. No version has been",
        "released yet: who upgrades comes from a commit, and `pixconnect doctor --upgrade` says which of these are left.",
        "",
        "Long steps run beside the service and go on where they were cut off. An index that is built needs room on the disk.",
        "[Change the version](../guides/production.md#change-the-version) says what to do with rows that break a rule.",
        "What else a version changes stands in the [changelog](../../CHANGELOG.md).",
        "",
        "| Step | What it does for long, and what it asks |",
        "|---|---|",
    ]
    lines += [
        f"| `{step.version:04d}_{step.name}` | {asked} |"
        for step in read_migrations("pixconnect.store")
        if (asked := describe_step(step))
    ]
    return "\n".join(lines) + "\n"


def describe_step(step: Migration) -> str:
    """What a step asks of an operator; empty where it asks nothing."""
    if step.is_in_batches:
        return "fills in rows, a few thousand at a time"
    if not step.is_outside_transaction:
        return ""
    said: list[str] = []
    if indexed := _list(_INDEXED, step.sql):
        said.append(f"builds indexes of {indexed}")
    if validated := _list(_VALIDATED, step.sql):
        said.append(f"holds the rows of {validated} against new rules")
    if dropped := _list(_DROPPED, step.sql):
        said.append(f"drops the indexes {dropped}")
    return "; ".join(said)


def _list(form: re.Pattern[str], sql: str) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(form.findall(sql))))
