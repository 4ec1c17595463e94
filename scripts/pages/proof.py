"""``docs/reference/proof.md``, from the rules of ``verify`` and the kinds of damage that tests plant."""

from collections.abc import Mapping

from pixconnect.features.proof.service.verify import RULES
from pixconnect.kernel.rules.proof import Rule, Subject
from support.damage import read_catalogue

_TITLES: Mapping[Subject, str] = {
    "holders": "The books of holders",
    "installation": "The installation: people, reports, totals, and the guards of the tables",
    "server": "The server",
    "rail": "The rail",
    "accounts": "Accounts at institutions",
    "heads": "Stored heads of the chain",
}


def write_page() -> str:
    """``docs/reference/proof.md``."""
    lines = [
        "# Proof of the books",
        "",
        "Every rule of `pixconnect verify`, and every kind of damage that our tests plant. Written by `make docs`.",
        "",
        "A rule compares both sides item by item, so that two errors that cancel out are two findings. Rules marked * always",
        "read everything: `verify --whole` checks them, and `verify --rule NAME`. A difference is checked again after",
        "`--again-after-s`, and is a finding if it remains.",
    ]
    for subject, title in _TITLES.items():
        rules = [rule for rule in RULES if rule.of == subject]
        lines += ["", f"## {title}", "", "| Rule | What holds | If it does not |", "|---|---|---|"]
        lines += [_describe(rule) for rule in rules]
    catalogue = read_catalogue()
    lines += [
        "",
        "## Planted damage",
        "",
        "A superuser writes each kind into books with all kinds of rows, with every trigger off; exactly the rules beside it",
        "find it: in `make test` among few holders, in `make damage` among a million entries. The statements are in",
        "`tests/vectors/damage.toml`. `tests/features/proof/tables/test_guards.py` changes tables, triggers, functions and",
        "grants, and `tests/features/proof/service/test_comparison_with_rail.py` the rail's reports.",
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
        "The entries of these books are not chained. `tests/features/proof/service/test_verify_chain.py` has twenty-one kinds",
        "of damage that the chain or stored heads find, `test_chained_audit.py` beside it those of the audit",
        "([how to store heads](../guides/prove-the-books.md)).",
        "",
        "Not found: history that was rewritten before it was chained (entries within a minute or two, the audit within half a",
        "minute), or later without a stored head.",
    ]
    return "\n".join(lines) + "\n"


def _describe(rule: Rule) -> str:
    mark = " *" if rule.is_of_whole_runs else ""
    return f"| `{rule.name}`{mark} | {rule.says} | {rule.meaning} |"
