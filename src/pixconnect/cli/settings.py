"""The settings of a verb: the environment's, and what a ``pixconnect run`` on the same home has found out since.

So ``PIXCONNECT_HOME=... pixconnect client create`` works beside a running service without any other setting.
"""

from typing import Any

import msgspec
from msgspec import Struct

from pixconnect import config
from pixconnect.config import Settings

RUNNING_FILE = "running.json"


class Running(Struct, frozen=True, kw_only=True):
    """What others need to work beside a running service; in a file of the home that only its owner reads.

    Attributes:
        mode: As the setting.
        base_url: Where the API answers.
        auth_url: Where the identity service answers.
        database_url: As the setting, with the embedded server's address where it is used.
        owner_database_url: The same for the owner.
        secret_key: The one in use.
        rail_url: The one in use.
    """

    mode: str
    base_url: str
    auth_url: str
    database_url: str
    owner_database_url: str
    secret_key: str
    rail_url: str


def read_settings() -> Settings:
    """Read the settings; those that are empty in the environment are taken from the running service, if there is one.

    Raises:
        SettingsError: A value cannot be what it says.
    """
    settings = config.read_settings()
    if settings.database_url:
        return settings
    try:
        running = msgspec.json.decode((settings.home_path / RUNNING_FILE).read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError):
        return settings
    found: dict[str, Any] = msgspec.structs.asdict(running)
    return msgspec.structs.replace(
        settings, **{name: value for name, value in found.items() if name == "mode" or not getattr(settings, name)}
    )
