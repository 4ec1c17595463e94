"""Measure the service on this machine; prints a table, and writes ``bench/results.json`` and the page of figures.

    make bench                                           a selection, each briefly: about six minutes
    .venv/bin/python bench/run.py --all                  everything at its full length: hours
    .venv/bin/python bench/run.py --only NAME            one measure at its full length, or several
    .venv/bin/python bench/run.py --only NAME --seconds 5 --rounds 1 --show-only    a try

Durable settings, the service's own defaults, loopback only. Every measure starts a separate service, checks its books
with `pixconnect verify` unless it wrote rows itself, and stops it. Load comes from other processes, whose CPU is
reported. The head of each measure's file defines its figures.
"""

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])  # the folder of this package; Python put this file's own folder there

from bench.catalogue import MEANINGS, MEASURES, command_of, options_of
from bench.figures import RESULTS, describe, keep
from bench.pages import REFERENCE, write_figures


def main() -> None:
    given = _parse()
    # If a time limit ends this process, the measured service must end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before everything was measured"))
    is_quick = not (given["only"] or given["all"])
    for name in given["only"] or [name for name in MEASURES if given["all"] or MEASURES[name].quick is not None]:
        options = options_of(name, given, is_quick=is_quick)
        for row in MEASURES[name].start(**options):
            print(describe(row), flush=True)
            if not given["show_only"]:
                keep(row, command_of(name, options))
                (REFERENCE / "figures.md").write_text(write_figures(), encoding="utf-8")


def _parse() -> dict[str, Any]:
    quick = ", ".join(name for name, measure in MEASURES.items() if measure.quick is not None)
    longer = ", ".join(name for name, measure in MEASURES.items() if measure.quick is None)
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"Measures: {quick}; and longer ones: {longer}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=MEASURES, metavar="NAME", help="measures, in this order")
    parser.add_argument("--all", action="store_true", help="the longer ones too, and each at its full length")
    parser.add_argument("--show-only", action="store_true", help=f"leave {RESULTS.name} and the page as they are")
    for option, meaning in MEANINGS.items():
        kind, is_list, users = _form_of(option)
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=kind,
            nargs="+" if is_list else None,
            help=f"{meaning} ({', '.join(users) if len(users) < 4 else 'most measures'})",
        )
    return vars(parser.parse_args())


def _form_of(option: str) -> tuple[type, bool, list[str]]:
    """The type of an option, whether it is a list, and the measures that read it."""
    users = [name for name, measure in MEASURES.items() if option in measure.reads]
    value = MEASURES[users[0]].reads[option]
    if isinstance(value, tuple):
        return (type(value[0]) if value else str), True, users
    return type(value), False, users


if __name__ == "__main__":
    main()
