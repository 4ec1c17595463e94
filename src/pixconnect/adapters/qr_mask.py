"""Chooses the mask of a QR code as the standard asks for: of eight, the one with the fewest penalty points.

zxing-cpp takes 0.3 ms for that, module by module, which is eight times as long as for the rest of the symbol. Here a symbol is
one large integer, with a bit for each module, row after row and dark ones set: a rule is a few shifts of the whole symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MASKS_COUNT: Final = 8

# ISO/IEC 18004, 7.8.3.1.
_BLOCK_POINTS: Final = 3
_FINDER_POINTS: Final = 40
_BALANCE_POINTS: Final = 10


class Masks:
    """The masks of symbols of one width and level, from those of one text: what differs is the same for every text."""

    def __init__(self, width: int, symbols: Sequence[int]) -> None:
        self._width = width
        self._changes = [symbol ^ symbols[0] for symbol in symbols]
        self._all = (1 << width * width) - 1
        self._beside = _modules_from(1, width)
        self._after_ten = _modules_from(10, width)

    def choose(self, symbol: int) -> int:
        """Return the symbol under the mask with the lowest penalty; ``symbol`` is under the first mask."""
        return min((symbol ^ change for change in self._changes), key=self.count_penalty)

    def count_penalty(self, symbol: int) -> int:
        # A shift by one brings the module on the left, and one by a row's width the module above.
        down, modules_count = self._width, self._width**2
        light = self._all ^ symbol
        same_across = ~(symbol ^ symbol >> 1) & self._beside
        same_down = ~(symbol ^ symbol >> down) & self._all >> down
        blocks_count = (same_across & same_across >> down & same_down).bit_count()
        # What begins in one row and ends in the next is no finder.
        finders_across = _find_finders(symbol, light, 1) & self._after_ten
        finders_count = finders_across.bit_count() + _find_finders(symbol, light, down).bit_count()
        unbalanced_count = abs(20 * symbol.bit_count() - 10 * modules_count) // modules_count
        return (
            _count_run_points(same_across, 1)
            + _count_run_points(same_down, down)
            + _BLOCK_POINTS * blocks_count
            + _FINDER_POINTS * finders_count
            + _BALANCE_POINTS * unbalanced_count
        )


def _count_run_points(same: int, step: int) -> int:
    """Three points for five modules in a row that are the same, and one for each that follows."""
    three = same & same >> step
    five = three & three >> 2 * step
    return five.bit_count() + 2 * (five & ~(five >> step)).bit_count()


def _find_finders(symbol: int, light: int, step: int) -> int:
    """Where a pattern like a finder's ends: dark, light, three dark, light, dark, with four light beside it."""
    dark_light = symbol >> step & light
    core = dark_light >> 5 * step & symbol >> 4 * step & symbol >> 3 * step & symbol >> 2 * step
    core &= light >> step & symbol
    two_light = light & light >> step
    four_light = two_light & two_light >> 2 * step
    return core >> 4 * step & four_light | core & four_light >> 7 * step


def _modules_from(column: int, width: int) -> int:
    row = (1 << width - column) - 1
    return sum(row << at * width for at in range(width))
