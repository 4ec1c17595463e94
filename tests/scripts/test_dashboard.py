"""The dashboard is what its rows say, in a form that Grafana documents, and asks for metrics that are there.

Nobody has opened it in Grafana here. ``tests/journeys/test_alerts_fire.py`` runs each query on a real Prometheus.
"""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

from pixconnect.api.frame import metrics as api_metrics
from pixconnect.worker import metrics as worker_metrics
from scripts.pages import dashboard
from scripts.write_pages import MEND
from support.prometheus import run_promtool

SHOWN: dict[str, Any] = json.loads(dashboard.FILE.read_text(encoding="utf-8"))
PANELS = [panel for panel in SHOWN["panels"] if panel["type"] != "row"]


def test_it_is_what_its_rows_say() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.render_dashboard(), MEND


def test_panels_lie_beside_each_other_in_the_grid() -> None:
    taken = dict[int, set[tuple[int, int]]]()
    for panel in SHOWN["panels"]:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= dashboard.COLUMNS_COUNT
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        taken[panel["id"]] = {(x, y) for x in columns for y in lines}
    assert len(taken) == len(SHOWN["panels"])
    assert not [pair for pair in combinations(taken, 2) if taken[pair[0]] & taken[pair[1]]]


def test_a_panel_has_what_a_time_series_needs() -> None:
    for panel in PANELS:
        assert panel["type"] == "timeseries"
        assert panel["fieldConfig"]["defaults"]["unit"] in {"none", "s", "reqps", "ops"}
        assert [target["refId"] for target in panel["targets"]] == ["A", "B", "C"][: len(panel["targets"])]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert [one["name"] for one in SHOWN["templating"]["list"]] == ["datasource", "institution"]


def test_it_asks_for_what_is_measured_or_recorded(tmp_path: Path) -> None:
    families = [*api_metrics.FAMILIES, *worker_metrics.FAMILIES]
    measured = {family.name for family in families}
    measured |= {
        f"{one.name}_{part}" for one in families if one.kind == "histogram" for part in ("bucket", "sum", "count")
    }
    queries = dashboard.list_queries()
    assert {name for query in queries for name in re.findall(r"\bpixconnect_[a-z_]+", query)} <= measured
    # What cannot be read is no rule either.
    rules = [dict(record=f"asked:{number}", expr=query) for number, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps(dict(groups=[dict(name="asked", rules=rules)])), encoding="utf-8")
    run_promtool("check", "rules", str(file))
