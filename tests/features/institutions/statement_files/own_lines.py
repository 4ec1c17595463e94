"""Any lines of our own statements, for property tests."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from pixconnect.features.statements.rules import StatementLine
from support.statement import make_line

# Hypothesis takes bounds without a zone, and adds it.
_NAIVE_MIN, _NAIVE_MAX = datetime(2000, 1, 1), datetime(2099, 12, 31)  # noqa: DTZ001


def any_lines() -> st.SearchStrategy[list[StatementLine]]:
    line = st.tuples(
        st.sampled_from(["IN", "OUT"]),
        st.integers(1, 999_999_999_999),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=140),
        st.datetimes(_NAIVE_MIN, _NAIVE_MAX, timezones=st.just(UTC)),
    )
    return st.lists(line, max_size=8).map(
        lambda told: [
            make_line(id=number, direction=direction, amount_cents=cents, description=text or None, created_at=at)
            for number, (direction, cents, text, at) in enumerate(told, 1)
        ]
    )
