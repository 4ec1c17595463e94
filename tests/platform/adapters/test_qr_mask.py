"""Penalty points counted module by module, as in the standard, compared with the fast computation."""

from collections.abc import Sequence
from itertools import groupby, pairwise

import pytest

from pixconnect.kernel.rules import br_code
from pixconnect.platform.adapters import qr_image
from pixconnect.platform.adapters.qr_image import MASKS_COUNT, Masks
from support.qr_symbol import read_symbol

CODE = br_code.format_dynamic_br_code("pix.example.com/8b3da2f39a4140d1a91abd93113bd441", "Fulano de Tal", "BRASILIA")
FINDERS = {"10111010000", "00001011101"}


def count_points(rows: Sequence[str]) -> int:
    width = len(rows)
    lines = [*rows, *("".join(column) for column in zip(*rows, strict=True))]
    runs = [len(list(run)) for line in lines for _, run in groupby(line)]
    finders = sum(line[at : at + 11] in FINDERS for line in lines for at in range(width - 10))
    blocks = sum(
        len(set(above[at : at + 2] + below[at : at + 2])) == 1 for above, below in pairwise(rows) for at in range(width - 1)
    )
    dark_percent = 100 * "".join(rows).count("1") / width**2
    points_of_runs = sum(run - 2 for run in runs if run >= 5)
    return points_of_runs + 3 * blocks + 40 * finders + 10 * int(abs(dark_percent - 50) / 5)


@pytest.mark.parametrize("text", [CODE, CODE[:10], (CODE * 4)[:512], "0" * 300, "A", "\0" * 90])
def test_the_symbol_is_under_the_mask_with_the_fewest_points(text: str) -> None:
    symbols = [qr_image._pack(qr_image._encode(text, mask)) for mask in range(MASKS_COUNT)]
    assert len(set(symbols)) == MASKS_COUNT
    octets, width = qr_image._make_symbol(text)
    digits = [f"{symbol:0{width * width}b}" for symbol in symbols]
    points = [count_points([each[at : at + width] for at in range(0, width * width, width)]) for each in digits]
    masks = Masks(width, symbols)
    assert [masks.count_penalty(symbol) for symbol in symbols] == points
    assert qr_image._pack(octets) == symbols[points.index(min(points))]


def test_what_was_learned_of_a_width_from_one_text_draws_another() -> None:
    texts = [CODE, CODE.replace("Fulano", "Beltra")]
    alone: list[bytes] = []
    for text in texts:
        qr_image._masks.clear()
        alone.append(qr_image.render_qr_png(text))
    assert [qr_image.render_qr_png(text) for text in texts] == alone
    assert [read_symbol(png).text for png in alone] == texts
