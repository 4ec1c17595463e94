"""Time and memory of a statement of a million lines, in each format.

``statement_<format>``: ``seconds`` until its last octet, ``peak_mib`` of the writing process and ``grown_mib`` since
before the first, CPU seconds, and the longest time for which it blocked other requests (``longest_part_cpu_ms``).

The embedded PostgreSQL is durable. One holder's account is filled with transfers in and out, and a refund in every
tenth line, with numbers and running balances that the schema's triggers check. Each format is read in a separate
process through the application, as by an HTTP server, and discarded.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import asyncpg

from bench.figures import Row
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.features.statements import api as statement_api
from pixconnect.kernel.baseline import read_service_steps
from pixconnect.kernel.flows.context import Context, Policy
from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.platform import migrations as schema_history
from pixconnect.platform import privileges
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.logging import current_request
from pixconnect.platform.pool import open_pool

ROOT = Path(__file__).parents[2]
HOLDER_ID = 1
GROUP = 10_000
ISPB = "99999003"

# Line n: of ten, four transfers in of 10.00, four out of 9.00, one in of 5.00, and its refund, so funds grow slowly.
FILL = """
with line as (
    select n, case when n % 10 = 9 then n - 1 else n end as transfer_id, n % 10 = 9 as is_refund,
        (n % 10) in (4, 5, 6, 7, 9) as is_out,
        case when n % 10 < 4 then 1000 when n % 10 < 8 then 900 else 500 end as amount_cents,
        timestamptz '2026-01-01' + n * interval '10 ms' as at
    from generate_series($1::bigint, $2::bigint) as n
),
made_transfer as (
    insert into transfer (id, holder_id, direction, initiation_type, external_id, fingerprint, end_to_end_id, correlation_id,
        amount_cents, status, counterparty, returned_cents, slot, settled_at, created_at, modified_at)
    select n, 1, case when is_out then 'OUT' else 'IN' end, 'KEY', case when is_out then 'order-' || n end,
        case when is_out then '\\x00'::bytea end, 'E99999004202601010000' || lpad(n::text, 11, '0'), gen_random_uuid(),
        amount_cents, case when n % 10 = 8 then 'RETURNED' else 'CONFIRMED' end,
        jsonb_build_object('name', 'Joana & Filhos Comercio Ltda ' || n % 1000, 'tax_id', '12345678909', 'ispb', '99999004',
            'branch', '0001', 'account_number', '1001', 'account_type', 'CHECKING'),
        case when n % 10 = 8 then amount_cents else 0 end, 0, at, at, at
    from line where not is_refund
),
made_refund as (
    insert into refund (id, holder_id, transfer_id, flow, external_id, fingerprint, return_id, original_end_to_end_id,
        correlation_id, amount_cents, status, reason, description, slot, settled_at, created_at, modified_at)
    select n, 1, transfer_id, 'OUT', 'refund-' || n, '\\x00', 'D99999003202601010000' || lpad(n::text, 11, '0'),
        'E99999004202601010000' || lpad(transfer_id::text, 11, '0'), gen_random_uuid(), amount_cents, 'RETURNED', 'MD06',
        'Returned as agreed', 0, at, at, at
    from line where is_refund
)
insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
    cause_kind, cause_id, cause_state, created_at)
select n, 1, case when is_out then 'available' else 'settlement' end::ledger_account,
    case when is_out then 'settlement' else 'available' end::ledger_account, amount_cents, n - 8,
    $3 + sum(case when is_out then -amount_cents else amount_cents end) over (order by n),
    case when is_refund then 'refund' else 'transfer' end::entry_cause, case when is_refund then n else transfer_id end,
    case when is_refund or n % 10 = 8 then 'RETURNED' else 'CONFIRMED' end::cause_state, at
from line
"""


async def fill(owner_url: str, lines_count: int) -> None:
    connection = await asyncpg.connect(owner_url)
    await privileges.make_roles(connection, with_sandbox=True)
    await schema_history.migrate(connection, "pixconnect", read_service_steps())
    await connection.execute("set search_path = pixconnect")
    await connection.execute(
        """insert into holder (id, name, tax_id, city, branch, account_number, account_type, created_at)
            values (1, 'Maria Souza', '52998224725', 'SAO PAULO', '0001', '1001', 'TRANSACTIONAL', '2025-12-01');
           insert into balance (holder_id, modified_at) values (1, '2025-12-01');
           insert into statement_head (holder_id) values (1);
           insert into deposit (id, holder_id, amount_cents, created_at) values (9007199254740991, 1, 100000, '2025-12-31');
           insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
                created_at, cause_kind, cause_id, cause_state)
                values (9007199254740991, 1, 'funding', 'available', 100000, 1, 100000, '2025-12-31', 'deposit',
                9007199254740991, 'MADE')"""
    )
    # One posting for each line, without reservations, which statements do not show.
    await connection.execute(
        """alter table transfer disable trigger check_new; alter table refund disable trigger check_new;
           insert into allowed_posting (kind, direction, is_book, status, debit_account, credit_account)
           values ('transfer', 'OUT', false, 'CONFIRMED', 'available', 'settlement'),
               ('refund', 'OUT', false, 'RETURNED', 'available', 'settlement')"""
    )
    # Line n has number n - 8: ids of transfers begin at 10, and the deposit has number 1.
    first, running = 10, 100_000
    while first < lines_count + 10:
        last = min(first + GROUP, lines_count + 10) - 1
        await connection.execute(FILL, first, last, running)
        running = await connection.fetchval("select available_cents + reserved_cents from whole_balance where holder_id = 1")
        first = last + 1
    await connection.execute("vacuum analyze")
    await connection.close()


async def read(login_url: str, form: str, lines_count: int) -> Row:
    """Read the statement once through the application."""
    pool = await open_pool(
        login_url, role="pixconnect_service", schema="pixconnect", connections_max=2, name="bench of statements"
    )
    policy = Policy(
        ispb=ISPB, institution_name="Pix Connect", location_prefix="", location_key_set_url="", auth_url="",
        is_sandbox=True,
    )  # fmt: skip
    present = {
        "pool": pool,
        "clock": SystemClock(),
        "entropy": SystemEntropy(),
        "policy": policy,
        "directory": HolderDirectory(pool, ISPB, "Pix Connect", SystemClock().monotonic_s),
    }
    context = Context(**cast(Any, dict.fromkeys(Context.__struct_fields__) | present))
    services = Services(**cast(Any, dict.fromkeys(Services.__struct_fields__) | {"context": context}))
    query = statement_api.StatementQuery(
        initial_date=SystemClock().real_now().replace(year=2026, month=1, day=1, hour=0, minute=0, second=0, microsecond=0),
        final_date=SystemClock().real_now().replace(year=2036),
        format=cast(Any, form),
    )
    request = Request(
        caller=Caller(client_id="bench", holder_id=HOLDER_ID, scopes=frozenset(SCOPES)),
        parameter=None,
        query=query,
        body=Nothing(),
        address="127.0.0.1",
        headers={},
    )
    current_request.set(("bench", HOLDER_ID))
    at_start_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    octets_count = lines_found = longest_part_s = 0
    marks = {"json": b'"running_balance":', "csv": b"\r\n", "ofx": b"<FITID>", "camt053": b"<NtryRef>"}
    document = await statement_api.retrieve_statement(services, request)
    assert not isinstance(document.content, bytes)
    before_s = time.process_time()
    async for part in document.content:
        longest_part_s = max(longest_part_s, time.process_time() - before_s)
        octets_count += len(part)
        lines_found += part.count(marks[form])
        before_s = time.process_time()
    await pool.close()
    assert lines_found - (form == "csv") == lines_count, lines_found
    return {
        "lines": lines_count,
        "seconds": round(time.perf_counter() - started_s, 1),
        "cpu_seconds": round(time.process_time() - started_cpu_s, 1),
        "megabytes": round(octets_count / 1e6),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "grown_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_start_kib) / 1024, 1),
        "longest_part_cpu_ms": round(longest_part_s * 1000, 1),
    }


def measure_statements(lines: int) -> Iterator[Row]:
    """Fill the account, then read each format in a separate process."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        postgres = EmbeddedPostgres(Path(folder), connections_max=20)
        with asyncio.Runner() as runner:
            runner.run(postgres.start())
            try:
                runner.run(fill(postgres.owner_url, lines))
                for form in ("json", "csv", "ofx", "camt053"):
                    words = [postgres.login_url, form, str(lines)]
                    command = [sys.executable, "-m", "bench.measures.statement", *words]
                    read_row = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
                    yield {"name": f"statement_{form}", **json.loads(read_row)}
            finally:
                runner.run(postgres.stop())


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
