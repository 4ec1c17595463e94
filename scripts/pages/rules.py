"""``docs/reference/rules.md``, from the register of Pix rules."""

from datetime import date

from pixconnect.domain.frame.money import show_reais
from pixconnect.domain.rules.register import ARRANGEMENT, ArrangementRule, RuleChange, RuleParty, Unit

_HEADINGS = {
    RuleParty.HOLDER: "Kept here, since they bind holders",
    RuleParty.PAYERS_INSTITUTION: "The payer's institution keeps them",
    RuleParty.RECEIVERS_INSTITUTION: "The receiver's institution keeps them",
    RuleParty.NOBODY_HERE: "They concern nobody here yet",
}
_STRICTER = {RuleChange.LESS: "to less", RuleChange.MORE: "to more", RuleChange.NONE: "no"}


def write_page() -> str:
    """``docs/reference/rules.md``."""
    lines = [
        "# Rules of the arrangement",
        "",
        "The central bank changes its rules several times a year. This is what the service knows of those that have times,",
        "amounts and counts. Written by `make docs` from `src/pixconnect/domain/rules/arrangement.csv`.",
        "",
        "- *From* is the day in Sao Paulo from which a row counts. What began under an older row ends under it: *runs",
        "  from* says which instant decides. Where no day is given, none is known, and the rule was always so here.",
        "- *Standing* says how sure we are: *cited* has sources that agree; *one source* has one, and should be looked up",
        "  before anybody relies on it: such a rule warns, and never refuses anything by itself; *ours* is our own choice.",
        "- An operator may make a rule stricter only in the direction that *may be changed* names.",
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
