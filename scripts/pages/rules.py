"""``docs/reference/rules.md``, from the register of Pix rules."""

from datetime import date

from pixconnect.kernel.register.register import ARRANGEMENT, ArrangementRule, RuleChange, RuleParty, Unit
from pixconnect.kernel.rules.money import show_reais

_HEADINGS = {
    RuleParty.HOLDER: "Rules for holders, which the service applies",
    RuleParty.PAYERS_INSTITUTION: "Rules for the payer's institution",
    RuleParty.RECEIVERS_INSTITUTION: "Rules for the receiver's institution",
    RuleParty.NOBODY_HERE: "Rules without effect here yet",
}
_STRICTER = {RuleChange.LESS: "to less", RuleChange.MORE: "to more", RuleChange.NONE: "no"}


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
        case Unit.DUTY:
            return "must be"
        case Unit.LIFTED:
            return "lifted"
        case Unit.CENTS:
            return show_reais(rule.read_value())
        case Unit.HOUR_OF_DAY:
            return f"{rule.read_value()}:00"
        case unit:
            return f"{rule.read_value():,} {unit}"
