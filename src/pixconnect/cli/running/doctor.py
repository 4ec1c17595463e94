"""``pixconnect doctor``: what could be wrong here, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from pixconnect.cli.frame import output, terminal
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.symptoms import Symptom
from pixconnect.cli.integrator import service_checks
from pixconnect.cli.running import local_checks

_SIGNS = dict(ok="+", note="~", wrong="!")


def doctor(*, upgrade: Annotated[bool, Parameter(negative=(), show_default=False)] = False, json: Json = False) -> None:
    """Check this machine and the service; change nothing.

    `+` is well, `~` may be intended, `!` must be mended: then the exit status is 6.

    Args:
        upgrade: Say which settings and rows this version will refuse, and what `migrate` would do. Run the new
            version's program with this option before you migrate, beside the old one.
    """
    found: list[Symptom] = []
    for symptom in _look(upgrade=upgrade):
        found.append(symptom)
        # One after the other: some take a while.
        if not json:
            _tell(symptom)
    if json:
        output.show_list("findings", [msgspec.to_builtins(symptom) for symptom in found], as_json=True)
    wrong_count = sum(symptom.status == "wrong" for symptom in found)
    if wrong_count:
        raise CommandError(f"{wrong_count} of {len(found)} must be mended", status=ExitStatus.FOUND)


def _look(*, upgrade: bool) -> Iterator[Symptom]:
    yield from local_checks.look(looks_at_tables=not upgrade)
    if upgrade:
        from pixconnect.cli.running import upgrade_checks  # noqa: PLC0415  with it comes nearly everything

        # Not the service's: it is still the old one.
        yield from upgrade_checks.look()
    else:
        yield from service_checks.look()


def _tell(symptom: Symptom) -> None:
    colour = "red" if symptom.status == "wrong" else "yellow" if symptom.status == "note" else "green"
    terminal.say(f"{terminal.paint(_SIGNS[symptom.status], colour)} {symptom.check}: {symptom.text}")
    if symptom.todo:
        terminal.say(f"    {symptom.todo}")
