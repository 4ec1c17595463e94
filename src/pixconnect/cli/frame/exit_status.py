"""How a verb ends, for scripts: the page of the command line lists these with their meanings."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The status of the process; what it complains of is one line on standard error."""

    DONE = 0
    """It is done."""
    REFUSED = 1
    """Wrong words, settings or credentials, or the service refuses: nothing was done, and the same again is refused again."""
    UNAVAILABLE = 3
    """The service does not answer, or not now: nothing was done. Try again."""
    UNSURE = 4
    """No answer came: it may have been done. Where the line names an `external_id`, the same again under it is safe."""
    ENDED_BADLY = 5
    """The event, trigger or payment that the verb watched ended in another way than expected."""
    FOUND = 6
    """`doctor` found something that must be mended."""
    BROKEN = 7
    """`verify` found something wrong in the books."""
    INTERRUPTED = 130
    """Ctrl-C."""
    READER_GONE = 141
    """The program that read its output ended first."""
