"""Each alert fires by the metrics of its cause, and ends when they are good again, by promtool."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct, structs

from pixconnect.features.monitoring import process_metrics as api_metrics
from pixconnect.features.monitoring import worker as worker_metrics
from support.prometheus import FOLDER, ROOT, RULES, read_alerts, read_groups, run_promtool

ALERTS = read_alerts()
WEEK = 7 * 24 * 60


class Case(Struct, frozen=True, kw_only=True):
    """Series with a value each minute, in promtool's notation, and the resulting alert."""

    series: Mapping[str, str]
    fires_at: str
    stops_at: str
    labels: Mapping[str, str] = {}
    quiet_at: str = "1m"  # before its cause
    every: str = "1m"


def gauge(name: str, bad: str, well: str = "0", **labels: str) -> Case:
    """Good for ten minutes, bad for three hours, and good again."""
    return Case(
        series={f"{name}{{{_write(labels)}}}": f"{well}x9 {bad}x180 {well}x60"},
        fires_at="185m",
        stops_at="230m",
        labels={key: value for key, value in labels.items() if key not in ("instance", "job", "extent", "state", "check")},
    )


def check(name: str, *kept: str) -> Case:
    case = gauge("pixconnect_health_check_failed", "1", check=name, instance="a")
    return structs.replace(case, labels=dict.fromkeys(kept, "a"))


def counter(name: str, per_minute: int, **labels: str) -> Case:
    """Constant, counting for an hour, and constant again."""
    return Case(
        series={f"{name}{{{_write(labels)}}}": f"0x9 0+{per_minute}x60 {60 * per_minute}x120"},
        fires_at="60m",
        stops_at="180m",
        labels={key: value for key, value in labels.items() if key in ("institution", "operation")},
    )


def _write(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{value}"' for key, value in labels.items())


LOJA = {"institution": "loja"}
CASES: dict[str, Case] = {
    "NothingReceived": Case(
        series={'pixconnect_institution_received_last_hour{institution="loja"}': "12x2687 0x40 3x40"},
        quiet_at=f"{4 * WEEK - 60}m",
        fires_at=f"{4 * WEEK + 60}m",
        stops_at=f"{4 * WEEK + 720}m",
        labels=LOJA,
        every="15m",
    ),
    "AccountUnread": Case(
        series={
            'pixconnect_institution_unread_seconds{institution="loja"}': "0x9 0+60x30 0x30",
            'pixconnect_institution_poll_seconds{institution="loja"}': "15x90",
        },
        fires_at="30m",
        stops_at="50m",
        labels=LOJA,
    ),
    "MoneyLeftUnordered": Case(
        series={'pixconnect_institution_paused{institution="loja",reason="strays"}': "_x9 1x20 stale"},
        fires_at="15m",
        stops_at="40m",
        labels={**LOJA, "reason": "strays"},
    ),
    "AccountPaused": Case(
        series={'pixconnect_institution_paused{institution="loja",reason="operator"}': "_x9 1x40 stale"},
        fires_at="40m",
        stops_at="60m",
        labels={**LOJA, "reason": "operator"},
    ),
    "DayNotClosed": gauge("pixconnect_institution_unclosed_day_age_seconds", "130000", **LOJA),
    "OrderUnanswered": gauge("pixconnect_order_oldest_silent_age_seconds", "1000", kind="transfer"),
    "OrderWaitsForPerson": gauge("pixconnect_institution_transfer_oldest_waiting_age_seconds", "4000", **LOJA),
    "TransferUnapproved": gauge("pixconnect_transfer_to_approve_oldest_age_seconds", "4000"),
    "BalanceBelowQueue": Case(
        series={
            'pixconnect_institution_balance_cents{institution="loja"}': "500x90",
            'pixconnect_institution_queued_cents{institution="loja"}': "400x9 600x20 400x60",
        },
        fires_at="20m",
        stops_at="40m",
        labels=LOJA,
    ),
    "BalanceDiffers": gauge("pixconnect_cases", "1", kind="account"),
    "CaseAges": gauge("pixconnect_case_oldest_open_age_seconds", "90000", kind="day"),
    "ReportWaits": gauge("pixconnect_reports_kept", "1", reason="contradiction"),
    "ChargeUnanswered": gauge("pixconnect_institution_charge_oldest_waiting_age_seconds", "1000", **LOJA),
    "BooksBroken": gauge("pixconnect_verify_broken", "2", rule="entries_balance"),
    "BooksUnproved": gauge("pixconnect_verify_age_seconds", "200000", "1000", extent="whole"),
    "DatabaseForgot": check("database_loss"),
    "TokenRefused": counter("pixconnect_institution_calls_total", 2, **LOJA, outcome="no_token"),
    "InstitutionThrottles": counter("pixconnect_institution_calls_total", 2, **LOJA, outcome="throttled"),
    "InstitutionCertificateEnds": gauge(
        "pixconnect_institution_certificate_seconds_left", "2000000", "9000000", **LOJA, part="receiving"
    ),
    "PartDown": Case(
        series={'up{job="pixconnect",instance="a"}': "1x9 0x20 1x20"},
        fires_at="20m",
        stops_at="40m",
        labels={"instance": "a", "job": "pixconnect"},
    ),
    "DatabaseAway": check("database"),
    "StandbyUnread": check("standby"),
    "DiskFull": check("disk"),
    "ClockWrong": check("clock", "instance"),
    "SigningKeyUnusable": check("signing_key", "instance"),
    # A series that begins with 1 shows no increase, and a process has no series of answers that it never gave.
    "ErrorsAnswered": Case(
        series={'pixconnect_requests_total{operation="create_charge",status="500"}': "_x9 1x100"},
        fires_at="15m",
        stops_at="40m",
        labels={"operation": "create_charge"},
    ),
    "WritesQueue": Case(
        series={'pixconnect_group_queue_length{instance="a",write="create_charges"}': "0x9 90x20 0x60"},
        fires_at="20m",
        stops_at="40m",
        labels={"instance": "a", "write": "create_charges"},
    ),
    "OrdersQueue": gauge("pixconnect_orders_due", "2000", kind="transfer"),
    "SlotsUnheld": Case(
        series={'pixconnect_slots_held{instance="a"}': "128x90", 'pixconnect_slots_held{instance="b"}': "128x9 0x20 128x60"},
        fires_at="20m",
        stops_at="40m",
    ),
    "DeliveriesLate": gauge("pixconnect_delivery_oldest_due_age_seconds", "100"),
    "ReceiverFails": gauge("pixconnect_endpoint_oldest_failure_age_seconds", "20000"),
    "DeliveriesGivenUp": counter("pixconnect_deliveries_given_up_total", 1),
    "FeedLate": gauge("pixconnect_feed_lag_seconds", "100"),
    "PartitionsMissing": gauge("pixconnect_partitions_ahead", "0", "1", table="event"),
    "CertificateEnds": gauge("pixconnect_certificate_seconds_left", "2000000", "9000000", used_for="webhooks"),
    "ClientCertificateEnded": gauge("pixconnect_client_certificates", "1", state="ended"),
    "DiskFills": gauge("node_filesystem_avail_bytes", "5", "50", instance="a", mountpoint="/", fstype="ext4"),
    "ClockDrifts": gauge("node_timex_offset_seconds", "0.9", instance="a"),
}
_KEPT: dict[str, dict[str, str]] = {
    "DiskFills": {"instance": "a", "mountpoint": "/", "fstype": "ext4"},
    "ClockDrifts": {"instance": "a"},
    "BalanceDiffers": {},
}
_ALSO = {"DiskFills": {'node_filesystem_size_bytes{instance="a",mountpoint="/",fstype="ext4"}': "100x300"}}


def test_each_alert_has_a_case_here() -> None:
    assert set(CASES) == set(ALERTS)


def test_promtool_finds_nothing_wrong_with_what_we_ship() -> None:
    run_promtool("check", "rules", *map(str, RULES))
    run_promtool("check", "config", str(FOLDER / "prometheus.yml"))


def test_what_is_scraped_has_the_ports_that_the_guide_gives_to_the_parts() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    (ours,) = (job for job in scraped if job["job_name"] == "pixconnect")
    ports = [target.removeprefix("127.0.0.1:") for one in ours["static_configs"] for target in one["targets"]]
    guide = " ".join((ROOT / "docs/guides/production.md").read_text(encoding="utf-8").split())
    said = re.search(
        r"`PIXCONNECT_METRICS_PORT='(\d+)'` in `serve-8081.env`, (\d+) in `serve-8082.env`, (\d+) in `work-1.env`, (\d+) in",
        guide,
    )
    assert said is not None
    assert ports == list(said.groups())
    (kept,) = set(
        re.findall(r"--storage.tsdb.retention.time=\d+d", guide + (FOLDER / "pixconnect.rules.yml").read_text(encoding="utf-8"))
    )
    assert kept.endswith("=40d")


@pytest.mark.parametrize(
    # Weeks of metrics take promtool longer.
    "name",
    [pytest.param(name, marks=pytest.mark.long) if case.every != "1m" else name for name, case in CASES.items()],
)
def test_it_fires_by_its_metric_and_stops(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    labels = {**_KEPT.get(name, case.labels), "severity": ALERTS[name]["labels"]["severity"]}
    series = {**case.series, **_ALSO.get(name, {})}
    firing = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    told = {"alertname": name, "alertstate": "firing", **labels}
    expected = [(case.quiet_at, False), (case.fires_at, True), (case.stops_at, False)]
    asked = [
        dict(expr=firing, eval_time=at, exp_samples=[dict(labels=f"ALERTS{{{_write(told)}}}", value=1)] if fires else [])
        for at, fires in expected
    ]
    _evaluate(tmp_path, name, series, asked, case.every)


def test_a_new_installation_is_not_told_that_it_receives_nothing(tmp_path: Path) -> None:
    """Without earlier weeks nothing is usual."""
    series = {'pixconnect_institution_received_last_hour{institution="loja"}': "12x300 0x200"}
    asked = [dict(expr='ALERTS{alertname="NothingReceived"}', eval_time="7000m", exp_samples=[])]
    _evaluate(tmp_path, "NothingReceived", series, asked, "15m")


@pytest.mark.long
def test_a_quiet_hour_of_each_week_is_not_unusual(tmp_path: Path) -> None:
    """A shop that is closed on this day of the week, as in earlier weeks."""
    week = "12x575 0x95"
    series = {'pixconnect_institution_received_last_hour{institution="loja"}': " ".join([week] * 4)}
    asked = [dict(expr='ALERTS{alertname="NothingReceived"}', eval_time=f"{4 * WEEK - 15}m", exp_samples=[])]
    _evaluate(tmp_path, "NothingReceived", series, asked, "15m")


@pytest.mark.parametrize("series", [{"up": "1x200"}, {'pixconnect_verify_age_seconds{extent="changes"}': "1000x200"}])
def test_books_that_were_never_proved_whole_are_told(series: dict[str, str], tmp_path: Path) -> None:
    expected = dict(labels='ALERTS{alertname="BooksUnproved",alertstate="firing",severity="warning"}', value=1)
    asked = [dict(expr='ALERTS{alertname="BooksUnproved"}', eval_time="180m", exp_samples=[expected])]
    _evaluate(tmp_path, "BooksUnproved", series, asked)


def test_books_that_were_proved_each_day_and_never_whole_are_told(tmp_path: Path) -> None:
    ages = {"changes": "1000x300", "whole": "500000x120 900000x200"}
    series = {f'pixconnect_verify_age_seconds{{extent="{extent}"}}': values for extent, values in ages.items()}
    expected = dict(labels='ALERTS{alertname="BooksUnproved",alertstate="firing",severity="warning"}', value=1)
    firing = 'ALERTS{alertname="BooksUnproved",alertstate="firing"}'
    asked = [dict(expr=firing, eval_time="120m", exp_samples=[]), dict(expr=firing, eval_time="260m", exp_samples=[expected])]
    _evaluate(tmp_path, "BooksUnproved", series, asked)


def test_an_outage_of_the_database_has_one_alarm(tmp_path: Path) -> None:
    checks = {"database": "0x9 1x60", "signing_key": "0x9 1x60", "clock": "0x9 _x60", "standby": "0x9 _x60"}
    series = {f'pixconnect_health_check_failed{{check="{name}",instance="a"}}': values for name, values in checks.items()}
    series["pixconnect_slots_held"] = "256x9 0x60"
    expected = dict(labels='ALERTS{alertname="DatabaseAway",alertstate="firing",severity="critical"}', value=1)
    asked = [dict(expr='ALERTS{alertstate="firing"}', eval_time="60m", exp_samples=[expected])]
    _evaluate(tmp_path, "DatabaseAway", series, asked)


def test_what_the_rules_ask_of_us_is_measured() -> None:
    measured = {family.name for family in (*api_metrics.FAMILIES, *worker_metrics.FAMILIES)}
    text = "".join(file.read_text(encoding="utf-8") for file in RULES)
    assert set(re.findall(r"\bpixconnect_[a-z_]+", text)) <= measured


def _evaluate(folder: Path, name: str, series: Mapping[str, str], asked: list[dict[str, Any]], every: str = "1m") -> None:
    """Let promtool evaluate the group of one alert only, because weeks of all groups take long."""
    groups = [group for group in read_groups() if any(rule.get("alert") == name for rule in group["rules"])]
    rules, file = folder / "rules.yml", folder / "test.yml"
    test = dict(
        interval=every, input_series=[dict(series=one, values=values) for one, values in series.items()], promql_expr_test=asked
    )
    # JSON is YAML too.
    rules.write_text(json.dumps(dict(groups=groups)), encoding="utf-8")
    file.write_text(json.dumps(dict(rule_files=[str(rules)], evaluation_interval=every, tests=[test])), encoding="utf-8")
    run_promtool("test", "rules", str(file))
