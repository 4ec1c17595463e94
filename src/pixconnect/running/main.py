"""The command ``pixconnect``: runs one verb, and turns its failure into one line and an exit status.

``run`` without options, as ``make run`` starts it, needs no parser of verbs, which takes longer to import than the supervisor
and would stay in its memory.
"""

import sys
from collections.abc import Sequence

from pixconnect.doors.cli import failures, terminal
from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.platform import environment
from pixconnect.platform.outgoing_text import hide_rows_in_tracebacks
from pixconnect.running import part


def main(words: Sequence[str] | None = None) -> int:
    """Run one verb, by default that of the command line, and return its exit status."""
    hide_rows_in_tracebacks()
    words = sys.argv[1:] if words is None else words
    try:
        if words in (["run"], ["run", "--end-with-parent"]):
            _run(end_with_parent=len(words) > 1)
        else:
            from pixconnect.running import verb_table  # noqa: PLC0415 - see above

            verb_table.run_verb(words)
    except KeyboardInterrupt:
        # As a shell reports a program that SIGINT ended.
        return ExitStatus.INTERRUPTED
    except terminal.ReaderGone:
        return ExitStatus.READER_GONE
    except Exception as error:
        line = failures.explain(error) or failures.explain_refused_value(error)
        # An internal defect keeps its traceback.
        if line is None:
            raise
        terminal.complain(line)
        return failures.find_status(error)
    return ExitStatus.DONE


def _run(*, end_with_parent: bool) -> None:
    for line in environment.misspelt_variables():
        terminal.complain(line)
    # It imports what the parts need while this process does the same.
    fork_server = part.start_fork_server()
    with part.lean_imports():
        from pixconnect.running import run  # noqa: PLC0415 - see above

    run.run_by(fork_server, end_with_parent=end_with_parent)
