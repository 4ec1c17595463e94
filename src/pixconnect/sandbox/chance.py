"""Chance that comes out the same for the same seed.

Every draw is named, so that one more draw somewhere changes nothing elsewhere, and a restart changes nothing at all.
"""

import hashlib
import string
from typing import Final
from uuid import UUID

_LETTERS: Final = string.digits + string.ascii_letters


class Chance:
    """Draws by name.

    Args:
        seed: The same seed and the same name draw the same.
    """

    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(16, signed=True)

    def fraction(self, *names: object) -> float:
        """A number from 0 (included) to 1 (excluded)."""
        return (self._draw(names) >> 203) / (1 << 53)

    def below(self, limit: int, *names: object) -> int:
        """A whole number from 0 (included) to ``limit`` (excluded)."""
        return self._draw(names) % limit

    def text(self, length: int, *names: object) -> str:
        """Up to 40 letters and digits."""
        drawn = self._draw(names)
        letters: list[str] = []
        for _ in range(length):
            drawn, letter = divmod(drawn, 62)
            letters.append(_LETTERS[letter])
        return "".join(letters)

    def uuid(self, *names: object) -> UUID:
        """A UUID of version 4."""
        return UUID(int=self._draw(names) >> 128, version=4)

    def cpf(self, *names: object) -> str:
        """A CPF with right check digits."""
        digits = [int(digit) for digit in f"{1 + self.below(999_999_998, *names):09d}"]
        if len(set(digits)) == 1:
            digits[-1] = (digits[-1] + 1) % 10
        for weight in (10, 11):
            rest = sum(digit * (weight - place) for place, digit in enumerate(digits)) % 11
            digits.append(0 if rest < 2 else 11 - rest)
        return "".join(map(str, digits))

    def _draw(self, names: tuple[object, ...]) -> int:
        text = "\0".join(map(str, names)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=32, key=self._key).digest())
