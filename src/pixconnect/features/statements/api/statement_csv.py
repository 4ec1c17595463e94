"""A statement as CSV (RFC 4180): a header, then one row per line; unsigned cents; an empty cell for an absent value.

Cells are exact, even if they begin like a formula: a program that reads them must get the ledger's contents. Names and
descriptions are outside text, and a spreadsheet may take ``=1+1`` for a formula; the reference page describes how to open the
file safely.
"""

import csv
import io
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Final

from pixconnect.features.statements.rules import Language, Statement, StatementLine
from pixconnect.platform.base.clock import format_instant

COLUMNS: Final = (
    "id",
    "create_timestamp",
    "end_to_end_id",
    "return_identification",
    "impact_type",
    "amount",
    "running_balance",
    "counterparty_name",
    "counterparty_tax_id",
    "counterparty_ispb",
    "description",
    # Later columns come last, so that programs may keep counting.
    "external_id",
    "transaction_identification",
)


async def write(statement: Statement, parts: AsyncIterable[Sequence[StatementLine]]) -> AsyncIterator[bytes]:
    yield _write_rows([COLUMNS])
    async for lines in parts:
        yield _write_rows([_row(line, statement.language) for line in lines])


def _row(line: StatementLine, language: Language) -> tuple[str | int | None, ...]:
    other = line.counterparty
    return (
        line.id,
        format_instant(line.created_at),
        line.end_to_end_id,
        line.return_id,
        line.direction,
        line.amount_cents,
        line.running_balance_cents,
        # Deposits, movements and repayments have no counterparty: three empty cells.
        *((None, None, None) if other is None else (other.name, other.tax_id, other.ispb)),
        line.describe(language),
        line.external_id,
        line.txid,
    )


def _write_rows(rows: Sequence[Sequence[str | int | None]]) -> bytes:
    # The writer ends lines with CRLF itself, as RFC 4180 requires; another translation would double it.
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
