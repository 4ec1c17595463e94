"""An independent reader of QR codes in pictures, after ISO/IEC 18004.

It expects a picture without noise and corrects nothing, but checks that every error correction codeword is right.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image

ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"
LEVELS = {0b01: "L", 0b00: "M", 0b11: "Q", 0b10: "H"}
# Of level M, by version: error correction codewords in a block, and blocks.
CORRECTION = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26]
BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16]
MASKS = [
    lambda y, x: (y + x) % 2 == 0,
    lambda y, _: y % 2 == 0,
    lambda _, x: x % 3 == 0,
    lambda y, x: (y + x) % 3 == 0,
    lambda y, x: (y // 2 + x // 3) % 2 == 0,
    lambda y, x: y * x % 2 + y * x % 3 == 0,
    lambda y, x: (y * x % 2 + y * x % 3) % 2 == 0,
    lambda y, x: ((y + x) % 2 + y * x % 3) % 2 == 0,
]

Modules = list[list[int]]


@dataclass(frozen=True)
class Symbol:
    """The content and its encoding; the quiet zone is left, top, right, bottom, in modules."""

    text: str
    level: str
    quiet_modules: tuple[float, float, float, float]


def read_symbol(png: bytes) -> Symbol:
    modules, quiet_modules = measure(png)
    level, mask = read_format(modules)
    assert level == "M", "the tables here are of level M"
    version = (len(modules) - 17) // 4
    bits = "".join(map(str, read_bits(modules, version, mask)))
    codewords = [int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)]
    return Symbol(read_text(correct_blocks(codewords, version), version), level, quiet_modules)


def measure(png: bytes) -> tuple[Modules, tuple[float, float, float, float]]:
    image = Image.open(io.BytesIO(png))
    image.load()
    pixels = image.convert("L")
    box = pixels.point(lambda value: 255 - value).getbbox()
    assert box is not None
    left, top, right, bottom = box
    run = next(width for width in range(1, pixels.width) if pixels.getpixel((left + width, top)))
    module = run / 7  # the upper edge of a finder pattern
    count = round((right - left) / module)
    at = [round(module * (index + 0.5)) for index in range(count)]
    modules = [[int(pixels.getpixel((left + x, top + y)) == 0) for x in at] for y in at]
    sides = (left, top, pixels.width - right, pixels.height - bottom)
    return modules, tuple(side / module for side in sides)


def read_format(modules: Modules) -> tuple[str, int]:
    around = [(8, x) for x in (0, 1, 2, 3, 4, 5, 7, 8)] + [(y, 8) for y in (7, 5, 4, 3, 2, 1, 0)]
    apart = [(y, 8) for y in range(-1, -8, -1)] + [(8, x) for x in range(-8, 0)]
    first, second = (int("".join(str(modules[y][x]) for y, x in places), 2) for places in (around, apart))
    assert first == second, "the two copies of the format differ"
    rest = word = first ^ 0x5412
    for shift in range(4, -1, -1):
        rest ^= (0x537 << shift) * (rest >> shift + 10 & 1)
    assert rest == 0, "the format has a wrong BCH code"
    return LEVELS[word >> 13], word >> 10 & 7


def read_bits(modules: Modules, version: int, mask: int) -> Iterator[int]:
    size = len(modules)
    reserved = reserved_modules(size, version)
    columns = [x for x in range(size - 1, -1, -1) if x != 6]
    for pair, right in enumerate(columns[::2]):
        for step in range(size):
            y = step if pair % 2 else size - 1 - step
            for x in (right, columns[2 * pair + 1]):
                if (y, x) not in reserved:
                    yield modules[y][x] ^ MASKS[mask](y, x)


def reserved_modules(size: int, version: int) -> set[tuple[int, int]]:
    places = {(6, index) for index in range(size)} | {(index, 6) for index in range(size)}
    places |= {(y, x) for y in range(9) for x in range(9)}
    places |= {(y, x) for y in range(9) for x in range(size - 8, size)}
    places |= {(y, x) for y in range(size - 8, size) for x in range(9)}
    if version >= 7:
        places |= {(y, x) for y in range(6) for x in range(size - 11, size - 8)}
        places |= {(y, x) for y in range(size - 11, size - 8) for x in range(6)}
    centres = alignment_centres(size, version)
    for y in centres:
        for x in centres:
            if (y, x) not in {(6, 6), (6, size - 7), (size - 7, 6)}:
                places |= {(y + down, x + over) for down in range(-2, 3) for over in range(-2, 3)}
    return places


def alignment_centres(size: int, version: int) -> list[int]:
    if version == 1:
        return []
    count = version // 7 + 2
    step = (version * 4 + count * 2 + 1) // (count * 2 - 2) * 2
    return [6, *sorted(size - 7 - step * index for index in range(count - 1))]


def correct_blocks(codewords: list[int], version: int) -> bytes:
    correction, count = CORRECTION[version - 1], BLOCKS[version - 1]
    lengths = [(len(codewords) + index) // count for index in range(count)]
    blocks: list[list[int]] = [[] for _ in range(count)]
    source = iter(codewords)
    for at in range(max(lengths) - correction):
        for block, length in zip(blocks, lengths, strict=True):
            if at < length - correction:
                block.append(next(source))
    text = bytes(octet for block in blocks for octet in block)
    for _ in range(correction):
        for block in blocks:
            block.append(next(source))
    assert all(is_right(block, correction) for block in blocks), "wrong error correction codewords"
    return text


def is_right(block: list[int], correction: int) -> bool:
    """Whether a Reed-Solomon block has no error: it is zero at every root of the generator."""
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] << 1 ^ (0x11D if powers[-1] & 0x80 else 0))
    logs = {power: index for index, power in enumerate(powers)}
    for root in range(correction):
        value = 0
        for octet in block:
            value = (powers[(logs[value] + root) % 255] if value else 0) ^ octet
        if value:
            return False
    return True


def read_text(octets: bytes, version: int) -> str:
    bits = "".join(f"{octet:08b}" for octet in octets)
    at, text = 0, ""

    def take(length: int) -> int:
        nonlocal at
        at += length
        return int(bits[at - length : at], 2)

    is_wide = version >= 10
    while len(bits) - at >= 4 and (mode := take(4)):
        match mode:
            case 0b0001:
                count = take(12 if is_wide else 10)
                lengths = [3] * (count // 3) + [count % 3] * bool(count % 3)
                text += "".join(f"{take(length * 3 + 1):0{length}d}" for length in lengths)
            case 0b0010:
                count = take(11 if is_wide else 9)
                for _ in range(count // 2):
                    text += "".join(ALPHANUMERIC[index] for index in divmod(take(11), 45))
                text += ALPHANUMERIC[take(6)] if count % 2 else ""
            case 0b0100:
                text += bytes(take(8) for _ in range(take(16 if is_wide else 8))).decode()
            case _:
                raise AssertionError(f"mode {mode:04b}")
    padding = bits[at + -at % 8 :]
    assert all(a != b for a, b in pairwise(padding[index : index + 8] for index in range(0, len(padding), 8)))
    return text
