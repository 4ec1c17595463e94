"""A folder for one installation of a test, and its secret key."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.postgres import remove_home

SECRET_KEY = "b2xkLWhvbWVzLWFyZS1tYWRlLXdpdGgtdGhpcy1rZXk="


@contextmanager
def new_home() -> Generator[Path]:
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    home.chmod(0o711)  # as root, the server's user must be able to enter
    try:
        yield home
    finally:
        remove_home(home)
