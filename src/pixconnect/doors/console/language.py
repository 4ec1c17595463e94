"""The console's two languages: texts, and the formats of amounts, dates and durations.

Pages are written in English; catalogues have each text in Portuguese. Amounts are always in reais and dates always in the zone
of Sao Paulo, in both languages.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from msgspec import Struct

from pixconnect.kernel.feature import list_files
from pixconnect.kernel.rules.money import format_reais, show_reais
from pixconnect.platform.base.clock import SAO_PAULO

LanguageCode = Literal["pt", "en"]

_CATALOGUES: Final = (Path(__file__).parent / "pt.po", *list_files("pt.po"))
_PREFERENCE: Final = re.compile(r"\s*([a-zA-Z]+)(?:-[a-zA-Z0-9]+)*\s*(?:;\s*q=([0-9.]+))?\s*")
_PREFERENCES_LENGTH_MAX: Final = 256
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Language(Struct, frozen=True, kw_only=True):
    code: LanguageCode
    locale: str
    tag: str  # for ``lang`` in HTML
    texts: Mapping[str, str]  # by the English text; empty in English

    def text(self, text: str, /, **values: object) -> str:
        """Translate a text; ``%(name)s`` in it is replaced."""
        translated = self.texts.get(text, text)
        return translated % values if values else translated

    def amount(self, cents: int | None) -> str:
        """Write an amount as ``R$ 1.234,56``, in both languages, with the minus sign of lists."""
        return "-" if cents is None else show_reais(cents).replace("-", "\u2212")

    def reais(self, cents: int) -> str:
        """An amount for a spreadsheet's cell."""
        text = format_reais(abs(cents))
        return ("-" if cents < 0 else "") + (text.replace(".", ",") if self.code == "pt" else text)

    def number(self, number: float) -> str:
        return format_decimal(number, locale=self.locale)

    def instant(self, at: datetime | None) -> str:
        return "-" if at is None else at.astimezone(SAO_PAULO).strftime("%d/%m/%Y %H:%M:%S")

    def clock_time(self, at: datetime) -> str:
        """The time of day, to the millisecond."""
        local = at.astimezone(SAO_PAULO)
        return f"{local:%H:%M:%S}{',' if self.code == 'pt' else '.'}{local.microsecond // 1000:03d}"

    def day(self, at: datetime) -> str:
        return at.astimezone(SAO_PAULO).strftime("%d/%m/%Y")

    def duration(self, duration: timedelta) -> str:
        """Write the two largest units of a duration: ``380 ms``, ``4,2 s``, ``3 min 20 s``, ``2 d 4 h``."""
        seconds = abs(duration.total_seconds())
        if seconds < 1:
            return f"{round(seconds * 1000)} ms"
        if seconds < 10:
            return f"{format_decimal(seconds, format='0.0', locale=self.locale)} s"
        left, parts = round(seconds), list[str]()
        for size, unit in _UNITS:
            count, left = divmod(left, size)
            if count:
                parts.append(f"{count} {unit}")
            if parts and (len(parts) == 2 or not left):
                break
        return " ".join(parts)


def _read_catalogues() -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in _CATALOGUES:
        with path.open("rb") as file:
            texts |= {str(each.id): str(each.string) for each in read_po(file) if each.id and each.string}
    return texts


LANGUAGES: Final[Mapping[LanguageCode, Language]] = {
    "pt": Language(code="pt", locale="pt_BR", tag="pt-BR", texts=_read_catalogues()),
    "en": Language(code="en", locale="en_US", tag="en", texts={}),
}


def choose_language(chosen: str | None, accepted: str) -> Language:
    """Choose the selected language, or else the browser's preferred one; English by default."""
    if chosen in LANGUAGES:
        return LANGUAGES[chosen]
    # A browser sends a few: in a long header each part could be scanned again for each of its spaces.
    wanted = [_PREFERENCE.fullmatch(part) for part in accepted[:_PREFERENCES_LENGTH_MAX].split(",")]
    # Sorting is stable, so languages of equal weight keep their order.
    for match in sorted((one for one in wanted if one), key=_quality, reverse=True):
        if (code := match[1].lower()) in LANGUAGES:
            return LANGUAGES[code]
    return LANGUAGES["en"]


def _quality(match: re.Match[str]) -> float:
    try:
        return float(match[2] or 1)
    except ValueError:
        return 0.0
