"""The register of the arrangement's rules is the one place where its times, amounts and counts stand."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pixconnect.config import Settings
from pixconnect.domain.rules.register import ARRANGEMENT, RuleParty, Unit

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pixconnect"
CITES = re.compile(r"Res\. BCB|IN BCB|DICT API|Manual de Tempos|arrangement|\bthe scheme\b", re.IGNORECASE)


def test_what_binds_holders_is_read_from_the_register() -> None:
    texts = [text for path in SOURCE.rglob("*.py") for text in re.findall(r'"([a-z_{}]+)"', path.read_text("utf-8"))]
    texts += [text.replace("{kind}", kind) for text in texts for kind in ("person", "firm")]
    enforced = {
        name
        for name, rows in ARRANGEMENT.rows.items()
        if rows[-1].binds == RuleParty.HOLDER and rows[-1].unit not in (Unit.DUTY, Unit.LIFTED)
    }
    assert enforced <= set(texts)


def test_no_constant_elsewhere_is_the_arrangements() -> None:
    """A number or a duration at the head of a module, whose own words name the arrangement or one of its documents.

    How long a text may be is the form of a message, and no rule with dates.
    """
    assert sorted(_find_constants()) == [
        # Ours, and longer than the scheme waits: which says why.
        "usecases/frame/failed_reports.py: LASTING_MIN_S",
        "usecases/money/unresolved.py: SILENT_MAX",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# The arrangement wants it.\nWINDOW = timedelta(days=90)",
        'WINDOW: Final = 90\n"""Source: DICT API 2.12.1."""',
        "WINDOW_S: Final = 40  # Manual de Tempos",
    ],
)
def test_a_constant_that_names_the_arrangement_is_seen(text: str) -> None:
    name = "WINDOW_S" if "_S" in text else "WINDOW"
    assert list(_constants_of(f"import re\n{text}\nOTHER = 7\n")) == [name]


def test_what_sql_and_settings_say_of_the_arrangement_is_what_the_register_says() -> None:
    """They cannot ask it: who gives a rule a further row sees here where an instant has to decide."""
    schema = (SOURCE / "store" / "schema.sql").read_text("utf-8")
    rule = (SOURCE / "store" / "proof" / "charges.py").read_text("utf-8")
    window, valid = ARRANGEMENT.find_constant("name_window"), ARRANGEMENT.find_constant("valid_after_due")
    assert re.findall(r"called_at \+ '(\d+):00:00'::interval", schema) == [str(window.read_value())]
    assert re.findall(r"'valid_days'\)::int, (\d+)\)", rule) == [str(valid.read_value())]
    assert Settings().charge_lifetime_s == ARRANGEMENT.find_constant("charge_lifetime").read_value()


def _find_constants() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        for name in _constants_of(path.read_text("utf-8")):
            yield f"{path.relative_to(SOURCE)}: {name}"


def _constants_of(text: str) -> Iterator[str]:
    lines = text.splitlines()
    for node, after in pairwise([*ast.parse(text).body, ast.Pass()]):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        if not isinstance(target, ast.Name) or not _is_number(getattr(node, "value", None)):
            continue
        words = lines[node.lineno - 2] if lines[node.lineno - 2].startswith("#") else ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            words += str(after.value.value)
        if CITES.search(words + lines[node.lineno - 1]) and not re.search("LENGTH|BITS", target.id):
            yield target.id


def _is_number(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return getattr(value.func, "id", "") == "timedelta"
    return (
        isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool)
    )
