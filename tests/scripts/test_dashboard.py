"""The dashboard matches its rows, has Grafana's documented form, and uses existing metrics.

It was not opened in Grafana. ``tests/journeys/test_alerts_fire.py`` runs each query on a real Prometheus.
"""

import json
import re
from pathlib import Path

from pixconnect.features.monitoring import process_metrics as api_metrics
from pixconnect.features.monitoring import worker as worker_metrics
from scripts.pages import dashboard
from scripts.pages.schema import MEND
from support.prometheus import run_promtool


def test_it_is_what_its_rows_say() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.render_dashboard(), MEND


def test_it_asks_for_what_is_measured_or_recorded(tmp_path: Path) -> None:
    families = [*api_metrics.FAMILIES, *worker_metrics.FAMILIES]
    measured = {family.name for family in families}
    measured |= {f"{one.name}_{part}" for one in families if one.kind == "histogram" for part in ("bucket", "sum", "count")}
    queries = dashboard.list_queries()
    assert {name for query in queries for name in re.findall(r"\bpixconnect_[a-z_]+", query)} <= measured
    # An unreadable one is no rule either.
    rules = [dict(record=f"asked:{number}", expr=query) for number, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps(dict(groups=[dict(name="asked", rules=rules)])), encoding="utf-8")
    run_promtool("check", "rules", str(file))
