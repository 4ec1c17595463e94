"""All machines of a cluster are lost; the guide's commands restore its copy and archived log, and are timed."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
import structlog

from journeys.test_point_in_time import COPY, KEEP_LOG, VERIFY, Keeper
from pixconnect.doors.cli.failures import ExitStatus
from support.failover.losing import find_forgotten, measure, sending
from support.failover.serving import addresses, prepare_database
from support.ha.cluster import open_cluster
from support.ha.network import choose_loopback
from support.ha.programs import find_missing
from support.home import new_home
from support.installation import ROOT, run_verb
from support.production_guide import blocks
from support.whole_installation import open_whole_installation

MISSING = find_missing()
pytestmark = [
    pytest.mark.journey,
    pytest.mark.long,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(MISSING is not None, reason=f"no cluster can be started: {MISSING}"),
]

_log = structlog.get_logger(__name__)
GUIDE = (ROOT / "docs" / "guides" / "high-availability.md").read_text(encoding="utf-8")
(RESTORE,) = (block for block in blocks("sh", GUIDE) if "recovery_target_action" in block)
HOLDERS_COUNT, LOADED_S, FUNDS_CENTS = 4, 10, 10_000_000


async def read_names(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        return {row["external_id"] for row in await connection.fetch("select external_id from pixconnect.transfer")}
    finally:
        await connection.close()


def test_what_was_acknowledged_comes_back_from_another_place_but_for_the_last_moment() -> None:
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    with new_home() as copies:
        keeper = Keeper(copies, "")
        with open_cluster(choose_loopback()) as cluster:
            prepare_database(cluster)
            cluster.execute("create role pix_backup login replication password 'change-me-4'")
            named = dict(BACKUP_URL=cluster.url("pix_backup", "change-me-4", ""))
            keeping = keeper.start(KEEP_LOG, **named)
            settings = addresses(cluster, "pixconnect")
            with open_whole_installation(database_cluster="pixconnect", **settings) as before:
                keeper.run(COPY if keeper.can_verify() else COPY.replace(VERIFY, ":"), **named)
                shutil.copy(before.installation.home / "secret.key", home)
                accounts = [before.open_account(FUNDS_CENTS) for _ in range(HOLDERS_COUNT)]
                with sending(before, accounts) as sent:
                    time.sleep(LOADED_S)
                    lost_s = time.monotonic()
                    cluster.kill()
            with suppress(ProcessLookupError):
                keeper.end(keeping)
        log_mb = sum(file.stat().st_size for file in (copies / "wal").iterdir()) / 1e6
        restored_s = measure(lambda: keeper.run(RESTORE, ADDRESS=cluster.network.proxy_address))
        try:
            began_s = time.monotonic()
            with open_whole_installation(home=home, database_cluster="restored", **settings) as after:
                ready_s = time.monotonic() - began_s
                kept = asyncio.run(read_names(settings["owner_database_url"]))
                verified_s = measure(lambda: prove(home, settings))
                assert after.installation.health_report()["checks"]["database_loss"]["status"] != "healthy"
                shown = json.loads(run_verb(home, "database", "show", "--json", **settings).stdout)
                assert shown["forgotten_since"]
        finally:
            keeper.run('pg_ctl --pgdata="$RESTORED" --mode=immediate stop')
    count, forgotten_s = find_forgotten(sent, kept, lost_s)
    _log.info(
        "restored and proved", acknowledged=len(sent), forgotten=count, forgotten_s=round(forgotten_s, 3),
        log_mb=round(log_mb), restored_s=round(restored_s, 1), ready_s=round(ready_s, 1),
        verified_s=round(verified_s, 1),
    )  # fmt: skip
    assert len(sent) > HOLDERS_COUNT
    assert kept >= {each.external_id for each in sent if each.answered_s < lost_s - LOADED_S / 2}


def prove(home: Path, settings: Mapping[str, str]) -> None:
    proved = run_verb(home, "verify", "--whole", "--again-after-s", "2", "--json", **settings)
    # A warning about a server whose commits wait for no standby is no finding.
    assert proved.returncode in {ExitStatus.DONE, ExitStatus.BROKEN}, proved.stderr
    assert json.loads(proved.stdout)["findings"] == []
