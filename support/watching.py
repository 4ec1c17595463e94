"""Debian's Prometheus, which scrapes real processes every few seconds with our alerting rules.

Rules with hours are shortened in three places only: the duration (``for``), ages in ``SHORTER``, and the range of
``increase``.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

from support.ports import reserved_port
from support.prometheus import find_program, read_groups, run_promtool
from support.waiting import is_ready, wait_until

SCRAPED_EVERY: Final = "3s"
WINDOW: Final = "30s"
SHORTER: Final[Mapping[str, tuple[str, str]]] = {
    "AccountUnread": ("> 300", "> 10"),
    "OrderUnanswered": ("> 900", "> 10"),
    "ChargeUnanswered": ("> 900", "> 10"),
    "CaseAges": ("> 86400", "> 10"),
    "OrderWaitsForPerson": ("> 3600", "> 10"),
    "TransferUnapproved": ("> 3600", "> 10"),
    # Another worker takes over after fifteen seconds.
    "FeedLate": ("> 60", "> 5"),
}
_WEEK_S: Final = 7 * 86_400


class Watching:
    def __init__(self, url: str) -> None:
        self._url = url

    def is_firing(self, alert: str, **labels: str) -> bool:
        wanted = {"alertname": alert, **labels}
        with urlopen(f"{self._url}/api/v1/alerts", timeout=60) as answer:  # noqa: S310  our own
            standing = json.load(answer)["data"]["alerts"]
        return any(one["state"] == "firing" and wanted.items() <= one["labels"].items() for one in standing)

    def has_answered(self, expression: str) -> bool:
        """Whether an expression had a result within the last hour."""
        until_s = time.time()
        asked = urlencode({"query": expression, "start": until_s - 3600, "end": until_s, "step": SCRAPED_EVERY})
        with urlopen(f"{self._url}/api/v1/query_range?{asked}", timeout=60) as answer:  # noqa: S310  our own
            return bool(json.load(answer)["data"]["result"])

    def wait_until_firing(self, alert: str, **labels: str) -> None:
        wait_until(lambda: self.is_firing(alert, **labels), f"{alert} fires")

    def wait_until_quiet(self, alert: str, **labels: str) -> None:
        wait_until(lambda: not self.is_firing(alert, **labels), f"{alert} stops")


@contextmanager
def watching(folder: Path, targets: Mapping[str, Sequence[int]], remembered: str = "") -> Iterator[Watching]:
    """Run Prometheus until the block ends, on ports by part, with ``remembered`` samples as OpenMetrics."""
    program, rules, config = find_program("prometheus"), folder / "rules.yml", folder / "prometheus.yml"
    rules.write_text(json.dumps(dict(groups=[shorten(group) for group in read_groups()])), encoding="utf-8")
    jobs = [dict(targets=[f"127.0.0.1:{port}" for port in ports], labels=dict(part=part)) for part, ports in targets.items()]
    every = dict(scrape_interval=SCRAPED_EVERY, scrape_timeout=SCRAPED_EVERY, evaluation_interval="1s")
    scraped = [dict(job_name="pixconnect", static_configs=jobs)]
    said = {"global": every, "rule_files": [str(rules)], "scrape_configs": scraped}
    config.write_text(json.dumps(said), encoding="utf-8")
    if remembered:
        (folder / "remembered.txt").write_text(remembered, encoding="utf-8")
        run_promtool("tsdb", "create-blocks-from", "openmetrics", str(folder / "remembered.txt"), str(folder / "data"))
    with reserved_port() as port, (folder / "log").open("w") as log:
        words = [
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=90d",
        ]
        process = subprocess.Popen([program, *words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: is_ready(f"{url}/-/ready"), "Prometheus is up")
            yield Watching(url)
        finally:
            process.terminate()
            process.wait(60)


def shorten(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group of rules without waiting times."""
    shortened = list[dict[str, Any]]()
    for rule in group["rules"]:
        said = {name: value for name, value in rule.items() if name != "for"}
        if "alert" in rule:
            said["expr"] = re.sub(r"(increase\([^()]*)\[\w+\]", rf"\1[{WINDOW}]", rule["expr"])
            said["expr"] = re.sub(r" offset \w+", f" offset {WINDOW}", said["expr"])
            if (change := SHORTER.get(rule["alert"])) is not None:
                assert change[0] in said["expr"], rule["alert"]
                said["expr"] = said["expr"].replace(*change)
        shortened.append(said)
    return {**group, "rules": shortened}


def remember_weeks(name: str, value: float) -> str:
    """OpenMetrics of a series with a value at this hour in each of the last four weeks."""
    now_s = int(time.time())
    lines = [f"# TYPE {name.partition('{')[0]} gauge"]
    for week in (4, 3, 2, 1):
        begin_s = now_s - week * _WEEK_S - 600
        lines += [f"{name} {value} {begin_s + 60 * minute}" for minute in range(130)]
    return "\n".join([*lines, "# EOF\n"])
