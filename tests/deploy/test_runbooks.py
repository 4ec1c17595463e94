"""Each alert has a runbook, each runbook an alert, and the commands of runbooks exist."""

import re
from pathlib import Path

from pixconnect.features.monitoring import process_metrics as api_metrics
from pixconnect.features.monitoring import worker as worker_metrics
from scripts.pages import command_line
from support.prometheus import ROOT, read_alerts
from support.service import a_policy

FOLDER = ROOT / "docs" / "runbooks"
PAGES = sorted(FOLDER.glob("*.md"))
ALERTS = read_alerts()
VERBS = frozenset(re.findall(r"^#+ (pixconnect .+)$", command_line.write_page(), re.MULTILINE))


def _name_page(alert: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"-\1", alert).lower()


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    assert {_name_page(alert): alert for alert in ALERTS} == {page.stem: _read_title(page) for page in PAGES}


def test_an_alert_says_what_where_and_how_bad() -> None:
    for alert in ALERTS:
        rule = ALERTS[alert]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        address = rule["annotations"]["runbook_url"].removeprefix("https://pix.example/")
        # The site has each page at its path in docs, without its suffix.
        assert _read_title(ROOT / f"{address}.md") == alert


def test_a_verb_that_a_page_names_exists() -> None:
    for page in PAGES:
        for named in re.findall(r"`(pixconnect [^`]+)`", page.read_text(encoding="utf-8")):
            words = named.split(" ")
            assert any(" ".join(words[:length]) in VERBS for length in (4, 3, 2)), named
            longest = max((" ".join(words[:length]) for length in (2, 3, 4)), key=lambda verb: (verb in VERBS, len(verb)))
            # A group alone is not a command.
            assert not any(verb.startswith(f"{longest} ") for verb in VERBS) or longest == "pixconnect verify", named


def test_a_metric_that_a_page_names_is_measured() -> None:
    for page in PAGES:
        measured = {family.name for family in (*api_metrics.FAMILIES, *worker_metrics.FAMILIES)}
        assert set(re.findall(r"`(pixconnect_[a-z_]+)`", page.read_text(encoding="utf-8"))) <= measured


def test_pages_about_missing_workers_name_when_orders_are_cancelled() -> None:
    for page in ("part-down", "slots-unheld"):
        assert f"hands over within {a_policy().handover_timeout_s} s is cancelled" in (FOLDER / f"{page}.md").read_text()


def _read_title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
