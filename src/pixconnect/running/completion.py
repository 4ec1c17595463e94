"""``pixconnect completion``: shell completion."""

from __future__ import annotations

from typing import Literal

from pixconnect.doors.cli import terminal


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a shell's completion of these words.

    For bash write it to `~/.local/share/bash-completion/completions/pixconnect`, for zsh to a file `_pixconnect` in a folder of
    `$fpath`, for fish to `~/.config/fish/completions/pixconnect.fish`.

    Args:
        shell: Which.
    """
    from pixconnect.running.verb_table import app  # noqa: PLC0415  it names this module

    terminal.print_line(app.generate_completion(prog_name="pixconnect", shell=shell))
