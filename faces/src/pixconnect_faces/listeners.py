"""The settings that name the faces with a port, and their answers."""

from typing import Final

from pixconnect.doors.cli.settings import FaceSettings
from pixconnect.features.institutions.profiles.profile import parse_answers, parse_listeners

SETTINGS: Final = (FaceSettings(parse_listeners=parse_listeners, parse_answers=parse_answers),)
