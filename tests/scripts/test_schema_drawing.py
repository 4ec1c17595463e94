"""The drawings of the tables can be read: no box covers another, no line crosses one, nothing stands outside of the frame."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.pages import schema
from scripts.pages.schema_drawing import WIDTH
from scripts.write_pages import REFERENCE

SVG = "{http://www.w3.org/2000/svg}"
DRAWINGS = sorted((REFERENCE / schema.DRAWINGS).glob("*.svg"))
SEGMENT = re.compile(r"M(?P<x>[\d.]+) (?P<y>[\d.]+)H(?P<lane>[\d.]+)V(?P<up>[\d.]+)H(?P<end>[\d.]+)")


@pytest.mark.parametrize("file", DRAWINGS, ids=lambda file: file.stem)
def test_a_drawing_can_be_read(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    root = ElementTree.fromstring(text)  # noqa: S314  ours
    assert float(root.get("width") or 0) == WIDTH <= 1280
    boxes = [
        tuple(float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("class") == "box"
    ]
    assert boxes
    for x, y, width, height in boxes:
        assert x >= 0
        assert x + width <= WIDTH
        assert y + height <= float(root.get("height") or 0)
    for one, other in combinations(boxes, 2):
        assert one[0] != other[0] or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
    for path in root.iter(f"{SVG}path"):
        found = SEGMENT.fullmatch(path.get("d") or "")
        assert found
        between = sorted((float(found["x"]), float(found["lane"]), float(found["end"])))
        # It stays between the right side of one column of boxes and the left side of the next.
        assert not [box for box in boxes if box[0] < between[-1] - 0.1 and box[0] + box[2] > between[0] + 0.1]
