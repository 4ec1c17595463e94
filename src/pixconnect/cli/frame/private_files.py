"""Warns, when a process starts, of files and folders with secrets that others can read: one line each."""

from pathlib import Path

from pixconnect import environment
from pixconnect.adapters.secret_box import KEY_FILE, PREVIOUS_KEY_FILE
from pixconnect.cli.frame import terminal
from pixconnect.config import Settings
from pixconnect.local.home import closed_mode

_FILE_OPEN = 0o077
_FOLDER_OPEN = 0o066
"""Others may pass through a home, as the embedded server's user must under root, but neither read nor write it."""


def complain_of_open(settings: Settings) -> None:
    """Warn of each file that other users can read or write: the home, its keys, the files of secrets."""
    home = settings.home_path
    _complain(home, _FOLDER_OPEN, f"{closed_mode(has_server=not settings.database_url):o}")
    for path in (home / KEY_FILE, home / PREVIOUS_KEY_FILE, *environment.secret_files().values()):
        _complain(path, _FILE_OPEN, "600")


def _complain(path: Path, too_open: int, wanted: str) -> None:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        # If a file does not exist or cannot be read, the part that needs it complains.
        return
    if mode & too_open:
        terminal.complain(f"{path} holds secrets and is open to others (mode {mode:04o}): chmod {wanted} {path}")
