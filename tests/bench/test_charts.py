"""Charts can be read by whoever reads them: drawn, written beside, and described."""

from xml.etree import ElementTree

import pytest

from bench.pages.charts import WIDTH, Bar, Panel, Series, draw_bars, draw_lines, short

SVG = "{http://www.w3.org/2000/svg}"
BARS = [
    Bar("a charge & its code", [("api", 100.0), ("postgres", 50.0)], "150 \u00b5s"),
    Bar("a transfer", [("api", 200.0), ("postgres", 0.0)], "200 \u00b5s"),
]
PANELS = [
    Panel("memory, MiB", [Series("api", [(0, 100), (10, 120)]), Series("worker", [(0, 50), (10, 119)])]),
    Panel("lag, ms", [Series("", [(0, 0), (10, 0)])]),
]
CHARTS = [draw_bars("What it costs", BARS, ("before", 400.0)), draw_lines("An hour", "minutes", PANELS)]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_has_a_title_and_a_description_and_nothing_outside_its_frame(chart: str) -> None:
    root = ElementTree.fromstring(chart)  # noqa: S314  ours
    assert root.get("role") == "img"
    labelled = {element.get("id"): element.text for element in root if element.get("id")}
    assert set((root.get("aria-labelledby") or "").split()) == set(labelled)
    assert all(labelled.values())
    for element in root.iter():
        x = float(element.get("x") or element.get("x1") or 0)
        assert 0 <= x + float((element.get("width") or "0").removesuffix("px")) <= WIDTH
        assert float(element.get("y") or 0) <= float(root.get("height") or 0)


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    root = ElementTree.fromstring(CHARTS[0])  # noqa: S314  ours
    widths = [float(bar.get("width") or 0) for bar in root.iter(f"{SVG}rect") if bar.get("height") == "18"]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert widths[2] == pytest.approx(2 * widths[0], rel=0.01)
    assert widths[3] == 0
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"150 \u00b5s", "200 \u00b5s", "a charge & its code", "before", "api", "postgres"} <= set(texts)
    assert "a charge & its code: 150 \u00b5s (api 100, postgres 50)" in (root.findtext(f"{SVG}desc") or "")


def test_lines_say_where_they_begin_end_and_are_highest() -> None:
    root = ElementTree.fromstring(CHARTS[1])  # noqa: S314  ours
    assert "api from 100 to 120, at most 120" in (root.findtext(f"{SVG}desc") or "")
    ends = sorted(
        float(text.get("y") or 0)
        for text in root.iter(f"{SVG}text")
        if (text.text or "").startswith(("api ", "worker "))
    )
    assert ends[1] - ends[0] >= 14, "no name covers another"


def test_both_a_light_and_a_dark_page_have_colours_for_it() -> None:
    for chart in CHARTS:
        assert "prefers-color-scheme: dark" in chart


def test_numbers_have_as_many_digits_as_can_be_read_off() -> None:
    assert [short(value) for value in (0.0, 0.1234, 3.0, 12.345, 1234.5)] == ["0", "0.123", "3", "12.3", "1,234"]
