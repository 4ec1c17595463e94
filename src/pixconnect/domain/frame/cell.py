"""A cell: the database that everything of a holder is in, and how ids and names say which one it is.

An installation has one cell, the home cell, whose number is 0. The number of a cell never changes, whichever server it is on.

::

    id     cell (8 bits) | number in the cell (45 bits)             below 2^53, which JavaScript keeps exact
    name   E 99999003 202611200753 a1B2c3D4e | 3F                   random characters, then the cell's tag

Ids of holders, charges, transfers, refunds and locations are such numbers: the sequences of a cell give out no others (the
migration ``0138_cells``). Those of the home cell are what they were before there were cells. Names of the network, txids,
tokens of locations and ids of clients that we make end with two characters of base 62, whose number modulo 256 is the cell. A
cell has 15 such tags, and one is drawn for each name: of the 11.9 random bits that two characters had, 3.9 are left.

An id is a proof of its cell, a name a hint only: others choose txids and ids of clients too, and names of before
``tagged_since`` (in the row ``installation``) end with any characters. Those are the home cell's; who finds nothing where a
name leads asks all.

Callers, payers and institutions keep both for ever, so neither can change: ``tests/domain/frame/test_cell.py`` has vectors.
"""

from __future__ import annotations

import string
from functools import cache
from typing import Final

from pixconnect.domain.frame.entropy import Entropy

HOME: Final = 0
"""The cell that an installation begins with."""
CELLS_MAX: Final = 256
_NUMBER_BITS: Final = 45
IDS_MAX: Final = 2**_NUMBER_BITS
"""So many ids are each cell's."""

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
PAIRS: Final = tuple(first + second for first in _DIGITS for second in _DIGITS)
"""Base 62 two digits at a time, in the order of ASCII, so that names sort as their numbers do."""
_TAGS_OF_CELL: Final = len(PAIRS) // CELLS_MAX
# Of the 3,844 pairs 3,840 are tags, 15 for each cell; the last four lead nowhere.
_CELLS: Final = {PAIRS[number]: number % CELLS_MAX for number in range(_TAGS_OF_CELL * CELLS_MAX)}


def cell_of_id(number: int) -> int:
    """The cell of a holder, charge, transfer, refund or location."""
    return number >> _NUMBER_BITS


def draw_tagged(entropy: Entropy, length: int, cell: int) -> str:
    """Unguessable text of ``[a-zA-Z0-9]`` whose last two characters say the cell."""
    drawn = entropy.token(length - 1)
    # The last one is not shown: it chooses the tag, so that no chance is drawn for it alone.
    return drawn[:-1] + _tags_by_character(cell)[drawn[-1]]


@cache
def _tags_by_character(cell: int) -> dict[str, str]:
    # The first four cells would have a sixteenth: it is cut off, so that all cells have as many names.
    tags = PAIRS[cell::CELLS_MAX][:_TAGS_OF_CELL]
    # 62 characters choose among 15 tags, so two of these are drawn five times where the others are four times.
    return {character: tags[place % _TAGS_OF_CELL] for place, character in enumerate(_DIGITS)}


def find_named_cell(name: str) -> int | None:
    """The cell that a name leads to, if it has a tag: a hint, since a name of somebody else ends with anything."""
    return _CELLS.get(name[-2:])
