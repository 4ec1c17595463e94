"""``docs/reference/rules.md``, from the register of Pix rules."""

from datetime import date

from pixconnect.kernel.register import ARRANGEMENT, ArrangementRule
from pixconnect.kernel.rules.money import show_reais

_HEADINGS = {
    "holder": "Rules for holders, which the service applies",
    "payer's institution": "Rules for the payer's institution",
    "receiver's institution": "Rules for the receiver's institution",
    "nobody here": "Rules without effect here yet",
}
_STRICTER = {"less": "to less", "more": "to more", "none": "no"}


def write_page() -> str:
    """``docs/reference/rules.md``."""
    lines = [
        "# Rules of the arrangement",
        "",
        "The central bank changes its rules several times a year. This page lists the rules with times, amounts and counts",
        "that the service uses. Written by `make docs` from `src/pixconnect/kernel/register/arrangement.csv`.",
        "",
        "- *From* is the first day of a row, in Sao Paulo; without a day the rule has always applied here. The instant in",
        "  *runs from* selects the row, which then applies to the end.",
        "- *Standing* is our certainty: *cited* has agreeing sources; *one source* has one, so check it before you rely on it:",
        "  such a rule only warns; *ours* is our own choice.",
        "- *May be changed* is the direction in which an operator may make a rule stricter.",
    ]
    for binds, heading in _HEADINGS.items():
        rows = [rule for rows in ARRANGEMENT.rows.values() for rule in rows if rule.binds == binds]
        lines += [
            "",
            f"## {heading}",
            "",
            "| Rule | Value | From | Runs from | May be changed | Standing | Source |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_write_row(rule) for rule in rows]
    return "\n".join(lines) + "\n"


def _write_row(rule: ArrangementRule) -> str:
    since = "" if rule.since == date.min else rule.since.isoformat()
    return (
        f"| {rule.says} (`{rule.name}`) | {_write_value(rule)} | {since} | {rule.clock} | {_STRICTER[rule.stricter]} "
        f"| {rule.standing} | {rule.source} |"
    )


def _write_value(rule: ArrangementRule) -> str:
    match rule.unit:
        case "duty":
            return "must be"
        case "lifted":
            return "lifted"
        case "cents":
            return show_reais(rule.read_value())
        case "hour of day":
            return f"{rule.read_value()}:00"
        case unit:
            return f"{rule.read_value():,} {unit}"
