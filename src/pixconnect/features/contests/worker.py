"""Sends holders' answers to contests, and their reminders, in the worker's slots."""

from __future__ import annotations

from typing import Final

from pixconnect.doors.worker.parts import poll_slots
from pixconnect.features.contests.service.defence import do_due
from pixconnect.features.contests.tables.infraction import IS_ANY_DUE

MEMBERS: Final = (poll_slots("defences", do_due, IS_ANY_DUE),)
