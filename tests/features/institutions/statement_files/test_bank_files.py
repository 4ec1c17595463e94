"""OFX in the forms of Brazilian banks, a quirk a file, read by us and by ofxtools.

The files in ``tests/vectors/ofx`` are made by us. ``quirks.json`` describes each with its expected lines, and whether
the second reader agrees.
"""

import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from ofxtools.Parser import OFXTree

from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatementFile
from pixconnect.features.statements import files
from support.statement import LINES, make_statement, write_whole

FOLDER = Path(__file__).parents[3] / "vectors" / "ofx"
QUIRKS: list[dict[str, Any]] = json.loads((FOLDER / "quirks.json").read_text())


def read_as_second(content: bytes) -> list[list[object]]:
    """The lines that ofxtools finds, by id; it skips lines that it warns about."""
    tree = OFXTree()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree.parse(io.BytesIO(content))
        (statement,) = tree.convert().statements
    # Some banks write balances as lines of no amount.
    return [[line.fitid, int(line.trnamt * 100)] for line in statement.transactions if line.trnamt]


def show(file: StatementFile) -> dict[str, Any]:
    return dict(
        account=file.account.number,
        closing_cents=file.closing and file.closing.cents,
        items=[
            [
                *(item.item_id, item.day.isoformat(), item.settled_at and item.settled_at.isoformat()),
                *(item.signed_cents, item.kind, item.text),
            ]
            for item in file.items
        ],
    )


def test_each_file_has_its_quirk() -> None:
    assert {file.name for file in FOLDER.glob("*.ofx")} == {quirk["file"] for quirk in QUIRKS}


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk["quirk"])
def test_it_is_read_to_the_cent_or_refused_by_its_rule(quirk: dict[str, Any]) -> None:
    content = (FOLDER / quirk["file"]).read_bytes()
    if "refused" in quirk:
        with pytest.raises(InvalidStatement) as caught:
            read_ofx(content)
        assert str(caught.value) == quirk["refused"]
        return
    told = show(read_ofx(content))
    assert told == {name: quirk[name] for name in told}


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk["quirk"])
def test_a_second_reader_has_the_same_lines_or_cannot_read_it(quirk: dict[str, Any]) -> None:
    content = (FOLDER / quirk["file"]).read_bytes()
    if quirk["second_reader"] == "cannot read it":
        # Each fault raises another error.
        with pytest.raises(Exception):  # noqa: B017
            read_as_second(content)
        return
    ours = [[line[0], line[3]] for line in quirk.get("items", ())]
    assert (read_as_second(content) == ours) is (quirk["second_reader"] == "same")


def test_what_we_export_is_the_same_to_both() -> None:
    content = write_whole(files.write_ofx, make_statement(), LINES)
    assert read_as_second(content) == [[item.item_id, item.signed_cents] for item in read_ofx(content).items] != []
