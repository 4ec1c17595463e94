"""Random months of nine kinds of banks, alone and mixed: with any files, the books follow the bank.

For the generator and the checks see ``support/true_months.py``. A check that fails for a kind of bank is an entry of
``MISSING``; its test fails once the check holds, so that the entry is removed.
"""

import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec import structs
from ofxtools.Parser import OFXTree
from pycamt.parser import Camt053Parser

from support.bank_simulator import Form, export, list_lines
from support.paper_reader import PaperReader
from support.true_months import CHECKS, KINDS, Check, Story, kinds, stories

NAMES: Final = (*KINDS, "mixed")
SEED: Final = 20260701
STRUCK: Final = "absence undoes nothing by itself: two operators take out what the bank has struck, so they are asked"

# A Pix that the bank books unnamed after a weekend finds its record taken by another line of its day and amount, and waits.
# Only the next reading shows that the line is no other Pix: until then to separate the two could post money twice.
RESEMBLED: Final = "a line that resembles a Pix keeps it, until people separate them, where the bank books the Pix days later"

MISSING: Final[Mapping[tuple[str, Check], str]] = {("mixed", "equals the bank after the answers"): RESEMBLED}
ASKING: Final[Mapping[str, str]] = {"backdated corrections": STRUCK}
"""Kinds of banks that cause questions although all the evidence was read."""


def draw_stories(name: str) -> st.SearchStrategy[Story]:
    return (kinds() if name == "mixed" else st.just(KINDS[name])).flatmap(stories)


def read_months(name: str, months_count: int, checks: Sequence[Check]) -> None:
    """The same months for all checks of a kind."""

    @seed(SEED)
    @settings(max_examples=months_count, derandomize=False, database=None, phases=[Phase.generate, Phase.shrink])
    @given(draw_stories(name))
    def read(story: Story) -> None:
        reader, faults = PaperReader(), dict[Check, str]()
        for step in story.list_steps():
            reader.take(step)
            faults = story.find_faults(step.at, reader.read_books(step.at)) | faults
        assert not [faults[check] for check in checks if check in faults]

    read()


@pytest.mark.parametrize("form", ["ofx", "camt.053"])
@given(data=st.data())
def test_the_files_are_what_their_format_says(data: st.DataObject, form: Form) -> None:
    """By independent readers: the bank's lines, in order."""
    kind = data.draw(kinds())
    # OFX requires a closing balance, which some banks leave out.
    bank = structs.replace(kind.bank, tells_closing="of_span")
    story = data.draw(stories(structs.replace(kind, bank=bank, forms=[form]), days_max=5))
    for one in story.deliveries:
        content = export(story.month, story.bank, one.request)
        cents = [line.cents for line in list_lines(story.month, story.bank, one.request)]
        assert (_read_ofx(content) if form == "ofx" else _read_camt(content)) == cents


def _read_ofx(content: bytes) -> list[int]:
    tree = OFXTree()
    tree.parse(io.BytesIO(content))
    (statement,) = tree.convert().statements
    return [int(line.trnamt * 100) for line in statement.transactions]


def _read_camt(content: bytes) -> list[int]:
    reader: Any = Camt053Parser(content)
    signs = {"CRDT": 1, "DBIT": -1}
    return [signs[line["CreditDebitIndicator"]] * int(Decimal(line["Amount"]) * 100) for line in reader.get_transactions()]


@pytest.mark.parametrize("months_count", [5, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_the_books_follow_the_bank(name: str, months_count: int) -> None:
    read_months(name, months_count, [one for one in CHECKS if (name, one) not in MISSING])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "missing"), [pytest.param(*key, marks=pytest.mark.xfail(reason=reason)) for key, reason in MISSING.items()]
)
def test_what_is_missing(name: str, missing: Check) -> None:
    read_months(name, 200, [missing])


@pytest.mark.parametrize(
    ("name", "months_count"),
    [
        *[(name, 3) for name in KINDS if name not in ASKING],
        *[pytest.param(name, 100, marks=pytest.mark.long) for name in KINDS if name not in ASKING],
        *[
            pytest.param(name, 100, marks=[pytest.mark.long, pytest.mark.xfail(reason=reason)])
            for name, reason in ASKING.items()
        ],
    ],
)
def test_nothing_is_asked_where_each_day_was_read_whole(name: str, months_count: int) -> None:
    @settings(max_examples=months_count)
    @given(stories(KINDS[name], is_plain=True, days_max=10))
    def check(story: Story) -> None:
        # A person has joined a sum before.
        reader = PaperReader(sum_forms=["pix recebidos qtd #"])
        for step in story.list_steps():
            reader.take(step)
        assert not reader.read_books(story.ends_at).questions

    check()
