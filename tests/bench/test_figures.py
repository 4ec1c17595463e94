"""What the page of figures says of rows that are kept while they are still measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import figures as kept
from bench.pages import figures

TABLES = ("transfer", "delivery", "open_order", "other")


def sampled(*names: str) -> dict[str, list[float]]:
    return {name: [1.0, 2.5] for name in names}


SOAK: dict[str, Any] = {
    "name": "soak",
    "seconds": 3600.0,
    "is_whole": False,
    "capacity_per_second": 1000.0,
    "per_second": 600.0,
    "is_held_by_disk": False,
    "shared_buffers_mib": 1024,
    "lasted_s": 120.0,
    "lives": 72_000,
    "failed": 0,
    "at_s": [60.0, 120.0],
    "lag_s": sampled("orders", "deliveries"),
    "per_second_in": sampled("accepted", "lives"),
    "answered_ms": sampled("p50", "p99"),
    "wal_mb": sampled("written", "kept"),
    "memory_mib": sampled("supervisor", "forks", "sandbox", "api", "worker", "postgres", "postgres_cache"),
    "vacuum": {"autovacuum_naptime": "30s"},
    **{group: sampled(*TABLES) for group in ("tables_mb", "indexes_mb", "dead_rows", "unvacuumed_s")},
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"machine": {"cores": 2, "machine": "x86_64", "python": "3.11"}, "rows": []}))
    for module in (kept, figures):
        monkeypatch.setattr(module, "RESULTS", path)
    monkeypatch.setattr(kept, "_commit", lambda: "0123456")
    return path


def test_a_soak_that_was_ended_early_is_on_the_page_and_says_so(results: Path) -> None:
    kept.keep(SOAK, "bench/run.py --only soak")
    page = figures.write_page()
    assert "600/s, 60% of the 1,000/s that it could take before; for 2 min, 72,000 lives, 0 requests failed" in page
    assert "Ended early" in page
    assert "figures/soak.svg" in page
    assert "at 600 transfers' lives a second" in figures.write_charts()["soak.svg"]


def test_a_whole_soak_takes_its_place_and_says_what_vacuum_did(results: Path) -> None:
    kept.keep(SOAK, "bench/run.py --only soak")
    kept.keep(SOAK | {"is_whole": True, "vacuum_runs": {"open_order": 3}}, "bench/run.py --only soak")
    page = figures.write_page()
    assert page.count("lives at an even pace") == 1
    assert "Ended early" not in page
    assert "Vacuum ran: open_order 3; with `autovacuum_naptime = 30s`" in page


def test_numbers_over_time_are_kept_in_one_line(results: Path) -> None:
    kept.keep(SOAK, "bench/run.py --only soak")
    assert '"at_s": [ 60.0, 120.0 ]' in results.read_text()


def test_what_a_standby_keeps_of_the_rate_is_drawn_in_batches_and_without(results: Path) -> None:
    fast = {
        "per_second": 900.0,
        "p50_ms": 5.0,
        "p99_ms": 50.0,
        "cpu_us_each_in_all": 110.0,
        "standby_cpu_us_each": 20.0,
    }
    row = {"name": "standby_charge", "rounds": 3, "rate_kept": 0.9, **fast, "without": fast | {"per_second": 1000.0}}
    kept.keep(row, "bench/run.py --only standby")
    kept.keep(row | {"name": "standby_charge_one_a_group", "rate_kept": 0.8}, "bench/run.py --only standby")
    assert "900/s, 0.90 of what it is without (1,000/s, medians of 3 pairs)" in figures.write_page()
    chart = figures.write_charts()["standby.svg"]
    assert "charge, in batches: 900/s, kept 0.90" in chart
    assert "charge, a transaction each: 900/s, kept 0.80" in chart
