"""The effect of a flood of expensive requests on another client.

``hostile_<attack>``: the victim reads its balance on a new connection each time, for ``seconds`` alone and for as long
beside the attack. The row has both medians and 99th percentiles in milliseconds, the number of its ``refused`` requests
(any status but 200; they count in the percentiles too), and ``holds``: none was refused, the median at most doubled,
and the percentile at most 50 ms higher. The service is pinned to one core, attack and victim to the other.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from bench.figures import Row, percentile
from bench.harness.installation import installed
from bench.harness.processes import on_cores
from bench.load.hostile import (
    attacking,
    blank_lines,
    compose,
    form_of_nothing,
    head_of,
    hostile_merchant,
    lot_of_nothing,
    lot_of_wrong_charges,
    malformed_json,
    octet_chunks,
    pay_by_code,
    read_answer,
    read_location,
    repeated_members,
)
from support.ports import reserved_port

SLOWER_TIMES = 2.0
SLOWER_MS = 50.0
PAUSE_S = 0.02
KIB = 1024
NO_CERTIFICATE = "no_certificate"
"""The attack on the port that requires one: each connection is refused at the handshake."""
HUNG_UP = "malformed_json_hung_up"  # the attack that closes each connection before its answer comes


def measure_hostile(seconds: float, kinds: Sequence[str] = ()) -> Iterator[Row]:
    """The victim alone and beside each attack in turn, or only beside the given ``kinds``."""
    all_cores = sorted(os.sched_getaffinity(0))
    with (
        on_cores({all_cores[0]}),
        reserved_port() as tls_port,
        installed(
            PIXCONNECT_LOG_LEVEL="error", PIXCONNECT_TLS_PORT=str(tls_port), PIXCONNECT_TLS_CLIENT_CERTIFICATE="required"
        ) as service,
        hostile_merchant() as port,
    ):
        victim, tenant = service.onboard(2)
        txid = service.open_charge(tenant)["transaction_identification"]
        # Composed at their turn, because a token may have expired by then.
        attacks = {
            "forms": (8, lambda: [form_of_nothing(64 * KIB)]),
            "short_forms": (8, lambda: [form_of_nothing(4 * KIB)]),
            "malformed_json": (8, lambda: [malformed_json(tenant.token, 64 * KIB)]),
            "short_malformed_json": (8, lambda: [malformed_json(tenant.token, 8 * KIB - 1)]),
            HUNG_UP: (8, lambda: [malformed_json(tenant.token, 8 * KIB - 1)]),
            "repeated_members": (8, lambda: [repeated_members(tenant.token, 64 * KIB)]),
            "blank_lines": (8, lambda: [blank_lines(tenant.token, 48 * KIB)]),
            "octet_chunks": (8, lambda: [octet_chunks(tenant.token, 48 * KIB)]),
            "octet_chunks_of_a_stranger": (8, lambda: [octet_chunks("", 48 * KIB)]),
            "lot_of_nothing": (2, lambda: [lot_of_nothing(tenant.token, 4 * KIB * KIB)]),
            "lot_of_wrong_charges": (2, lambda: [lot_of_wrong_charges(tenant.token)]),
            "qr_codes": (16, lambda: [pay_by_code(tenant.token, port)]),
            "locations": (16, lambda: [read_location(txid)]),
            "head_of_openapi": (16, lambda: [head_of("/openapi.json")]),
            "openapi": (16, lambda: [compose("GET", "/openapi.json")]),
            "health": (16, lambda: [compose("GET", "/v1/connect/health")]),
            NO_CERTIFICATE: (16, lambda: [compose("GET", "/v1/connect/health")]),
        }
        os.sched_setaffinity(0, {all_cores[-1]})
        for name in kinds or attacks:
            connections, compose_requests = attacks[name]
            requests = compose_requests()
            alone, _ = asyncio.run(ask_balance(service.base_url, victim.token, seconds))
            attacked_url = f"https://127.0.0.1:{tls_port}" if name == NO_CERTIFICATE else service.base_url
            attack_on = attacking(attacked_url, requests, connections, {all_cores[-1]}, hangs_up=name == HUNG_UP)
            with attack_on as attack:
                time.sleep(1.0)
                before_count = attack.answered_count
                beside, refused_count = asyncio.run(ask_balance(service.base_url, victim.token, seconds))
                answered = attack.answered_count - before_count
            row: Row = {"name": f"hostile_{name}", "seconds": seconds, "connections": connections}
            yield row | _tell(alone, beside, refused_count) | {"attacks_per_second": answered / seconds}


def _tell(alone: list[float], beside: list[float], refused_count: int) -> Row:
    row: Row = {"asked": len(beside), "refused": refused_count}
    for when, took_s in (("alone", alone), ("beside", beside)):
        row |= {f"p50_ms_{when}": 1000 * percentile(took_s, 0.5), f"p99_ms_{when}": 1000 * percentile(took_s, 0.99)}
    median_holds = row["p50_ms_beside"] <= SLOWER_TIMES * row["p50_ms_alone"]
    percentile_holds = row["p99_ms_beside"] <= row["p99_ms_alone"] + SLOWER_MS
    return row | {"holds": median_holds and percentile_holds and not refused_count}


async def ask_balance(base_url: str, token: str, seconds: float) -> tuple[list[float], int]:
    """The time of each response with its connection, and the number of refusals."""
    place = urlsplit(base_url)
    request = compose("GET", "/v1/connect/ledger/balance", token=token)
    took_s: list[float] = []
    refused_count = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        status, _ = await read_answer(reader)
        took_s.append(time.monotonic() - began_s)
        refused_count += status != HTTPStatus.OK
        writer.close()
        await asyncio.sleep(PAUSE_S)
    return took_s, refused_count
