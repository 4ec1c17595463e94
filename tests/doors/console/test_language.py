"""The console's two languages."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from babel.messages.extract import extract_from_dir

from pixconnect.assembly.pages import MENU
from pixconnect.doors import console
from pixconnect.doors.console import visit
from pixconnect.doors.console.language import LANGUAGES, choose_language
from pixconnect.kernel.feature import list_files

FOLDERS = (Path(console.__file__).parent, *(path.parent for path in list_files("templates")))
_PLACE = re.compile(r"%\((\w+)\)s")


def test_every_text_of_a_page_is_there_in_portuguese_with_the_same_places() -> None:
    texts = {entry.text for entry in MENU}
    for folder in FOLDERS:
        found: Any = extract_from_dir(folder / "templates", method_map=[("**.html", "jinja2")], keywords={"_": None})
        texts |= {str(message) for _, _, message, _, _ in found}
    assert len(texts) > 100
    portuguese = LANGUAGES["pt"].texts
    assert texts - set(portuguese) == set()
    assert set(portuguese) - texts == set()
    wrong = [text for text in texts if set(_PLACE.findall(text)) != set(_PLACE.findall(portuguese[text]))]
    assert wrong == []


def test_kinds_of_features_are_nouns_with_translations_of_their_own() -> None:
    words: Any = visit._templates.get_template("words.html").make_module({"_": str.upper})
    assert (words.kind("charge"), words.kind("recurrence")) == ("CHARGE", "RECURRENCE")


@pytest.mark.parametrize(
    ("chosen", "accepted", "code"),
    [
        (None, "pt-BR,pt;q=0.9,en;q=0.8", "pt"), (None, "en;q=0.5, pt;q=0.7", "pt"), (None, "de, fr", "en"),
        (None, "", "en"), (None, ";;q=x,,*", "en"), ("en", "pt-BR", "en"), ("xx", "pt-BR", "pt"),
        # The end of a long header is not read.
        (None, "de," * 400 + "pt", "en"),
    ],
)  # fmt: skip
def test_the_language_is_the_chosen_one_or_the_browsers(chosen: str | None, accepted: str, code: str) -> None:
    assert choose_language(chosen, accepted).code == code


def test_amounts_instants_and_durations_are_written_as_in_brazil() -> None:
    portuguese = LANGUAGES["pt"]
    assert portuguese.amount(123_456_789) == "R$ 1.234.567,89"
    assert portuguese.amount(-999_999_999_999) == "\u2212R$ 9.999.999.999,99"
    # The zone of Sao Paulo is three hours behind.
    assert portuguese.instant(datetime(2026, 11, 21, 2, 19, 3, tzinfo=UTC)) == "20/11/2026 23:19:03"
    durations = [0.38, 4.2, 200, 3 * 3600, 2 * 86_400 + 4 * 3600 + 61]
    said = [portuguese.duration(timedelta(seconds=seconds)) for seconds in durations]
    assert said == ["380 ms", "4,2 s", "3 min 20 s", "3 h", "2 d 4 h"]
