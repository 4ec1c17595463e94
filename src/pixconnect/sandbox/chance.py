"""Randomness that is the same for the same seed.

Every draw has a name. So one more draw somewhere changes no other, and a restart changes none.
"""

import hashlib
import string
from typing import Final
from uuid import UUID

_LETTERS: Final = string.digits + string.ascii_letters


class Chance:
    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(16, signed=True)

    def fraction(self, *names: object) -> float:
        """Return a number from 0 to just below 1."""
        # 53 of the 256 bits that were drawn: as many as a float holds.
        return (self._draw(names) >> 203) / (1 << 53)

    def below(self, limit: int, *names: object) -> int:
        return self._draw(names) % limit

    def text(self, length: int, *names: object) -> str:
        """Return up to 40 letters and digits; there is no more in one draw."""
        drawn = self._draw(names)
        letters: list[str] = []
        for _ in range(length):
            drawn, letter = divmod(drawn, 62)
            letters.append(_LETTERS[letter])
        return "".join(letters)

    def uuid(self, *names: object) -> UUID:
        return UUID(int=self._draw(names) >> 128, version=4)

    def cpf(self, *names: object) -> str:
        digits = [int(digit) for digit in f"{1 + self.below(999_999_998, *names):09d}"]
        # Nine equal digits have right check digits, and are no CPF all the same.
        if len(set(digits)) == 1:
            digits[-1] = (digits[-1] + 1) % 10
        for weight in (10, 11):
            rest = sum(digit * (weight - position) for position, digit in enumerate(digits)) % 11
            digits.append(0 if rest < 2 else 11 - rest)
        return "".join(map(str, digits))

    def _draw(self, names: tuple[object, ...]) -> int:
        text = "\0".join(map(str, names)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=32, key=self._key).digest())
