"""The command ``pixconnect``: runs one verb, and turns its failure into one line and an exit status.

``run`` without options, as ``make run`` starts it, needs no parser of verbs, which takes longer to import than the supervisor
and would stay in its memory. It starts the fork server before anything else is imported, so both import at the same time.
"""

import sys
from collections.abc import Sequence

from pixconnect.running import part


def main(words: Sequence[str] | None = None) -> int:
    """Run one verb, by default that of the command line, and return its exit status."""
    words = sys.argv[1:] if words is None else words
    try:
        if words in (["run"], ["run", "--end-with-parent"]):
            _run(end_with_parent=len(words) > 1)
        else:
            from pixconnect.platform import outgoing_text  # noqa: PLC0415 - see above

            outgoing_text.hide_rows_in_tracebacks()
            from pixconnect.running import verb_table  # noqa: PLC0415 - see above

            verb_table.run_verb(words)
    except BaseException as error:
        from pixconnect.doors.cli import failures  # noqa: PLC0415 - see above

        # An internal defect keeps its traceback.
        if (status := failures.report(error)) is None:
            raise
        return status
    return 0


def _run(*, end_with_parent: bool) -> None:
    forks = part.start_forks()
    with part.lean_imports():
        from pixconnect.doors.cli import terminal  # noqa: PLC0415 - see above
        from pixconnect.platform import environment, outgoing_text  # noqa: PLC0415 - see above
        from pixconnect.running import run  # noqa: PLC0415 - see above

    outgoing_text.hide_rows_in_tracebacks()
    for line in environment.misspelt_variables():
        terminal.complain(line)
    run.run_by(forks, end_with_parent=end_with_parent)
