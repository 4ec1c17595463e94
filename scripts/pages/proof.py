"""``docs/reference/proof.md``, from the rules of ``verify`` and the kinds of damage that tests plant."""

from collections.abc import Mapping

from pixconnect.domain.proof.rule import Rule, Subject
from pixconnect.store.proof.rules import RULES
from support.damage import read_catalogue

_TITLES: Mapping[Subject, str] = {
    "holders": "The books of holders",
    "installation": "The installation: people, reports, totals, and what guards the tables",
    "server": "The server",
    "rail": "The rail",
    "accounts": "Accounts at institutions",
    "heads": "Heads of the chain that were kept elsewhere",
}


def write_page() -> str:
    """``docs/reference/proof.md``."""
    lines = [
        "# Proof of the books",
        "",
        "Every rule that `pixconnect verify` asks, and every kind of damage that our tests plant. Written by `make docs`.",
        "",
        "A rule compares both sides item by item, so that two mistakes that cancel out are two findings. Rules marked *",
        "read everything whatever has changed: `verify --whole` asks them, and `verify --rule NAME`. What is found is",
        "looked at again after `--again-after-s`, and counts if it is still there.",
    ]
    for subject, title in _TITLES.items():
        rules = [rule for rule in RULES if rule.of == subject]
        lines += ["", f"## {title}", "", "| Rule | What holds | If it does not |", "|---|---|---|"]
        lines += [_describe(rule) for rule in rules]
    catalogue = read_catalogue()
    lines += [
        "",
        "## Damage that is found",
        "",
        "Each kind is written into books with a bit of everything by somebody who may do everything, with every trigger",
        "off, and is found by exactly the rules beside it: in `make test` among few holders, in `make damage` among a",
        "million entries. The statements are in `tests/vectors/damage.toml`. More changes of tables, triggers, functions",
        "and grants are in `tests/store/proof/test_guards.py`, and what the rail may say otherwise in",
        "`tests/usecases/proof/test_rail.py`.",
        "",
        "| Kind | Found by |",
        "|---|---|",
    ]
    found = {kind.name: kind.rules for kind in catalogue.of_holders} | {
        kind.name: frozenset(finding.split(":")[0] for finding in kind.findings) for kind in catalogue.of_installation
    }
    lines += [f"| {name} | {', '.join(f'`{rule}`' for rule in sorted(rules))} |" for name, rules in found.items()]
    lines += [
        "",
        "The entries of these books are not chained: what their chain finds beside all of this is in",
        "`tests/usecases/proof/test_chain.py`, twenty-one kinds. What only heads find that were kept elsewhere is there too,",
        "and of the audit in `test_chained_audit.py` beside it",
        "([how to keep heads](../guides/prove-the-books.md)).",
        "",
        "What is not found: history that somebody rewrote whole before it was chained, of entries within a minute or two, of",
        "the audit within half a minute; or later where no head was kept.",
    ]
    return "\n".join(lines) + "\n"


def _describe(rule: Rule) -> str:
    mark = " *" if rule.is_of_whole_runs else ""
    return f"| `{rule.name}`{mark} | {rule.says} | {rule.meaning} |"
