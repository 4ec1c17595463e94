"""The settings by which a process reaches another cell: those of the home cell, with the address of that cell's database."""

from __future__ import annotations

import dataclasses
from typing import Final

from pixconnect.config import Settings
from pixconnect.domain.running.known_cell import CellAddress

_LOGINS: Final = (
    "database_url",
    "owner_database_url",
    "operator_database_url",
    "console_database_url",
    "verify_database_url",
)


def settings_of(settings: Settings, cell: CellAddress) -> Settings:
    """The same logins at the cell's database."""
    reached = {name: cell.address_for(getattr(settings, name)) for name in _LOGINS}
    # The home's standby says nothing of another server.
    return dataclasses.replace(settings, **reached, read_database_url="", database_cluster=cell.cluster)
