"""Kill points: moments at which a process kills itself as by kill -9, without any code for that in the service.

::

    test: arm("work before call") ──► a file in the home ──► worker: before the call it removes the file and kills
        itself

Every part is started with ``kill_points/sitecustomize.py`` on its path, which wraps the functions below before the part
imports them. Only the process that removes the armed file dies, so a point kills once, and the replacement of the
process lives.
"""

import functools
import importlib
import json
import os
import signal
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import structs

FOLDER_NAME: Final = "kill_points"
CLOCKS_FOLDER_NAME: Final = "clocks"
"""The clock's error in seconds, in a file named after the part, read at its start."""
WIRES_FILE_NAME: Final = "wires.json"  # addresses in the settings of parts, and the addresses that replace them
ABILITIES_FILE_NAME: Final = "abilities.json"
"""The rail's abilities, in the home of an installation whose rail has fewer than the sandbox's."""
POLICY_FILE_NAME: Final = "policy.json"  # changed settings of ``Policy``, in the home of the installation
SITE_FOLDER: Final = Path(__file__).resolve().parent / FOLDER_NAME

_STOPS: Final = "stop"
_RAIL: Final = "pixconnect.features.sandbox.rail:SandboxRail"

# Before or after these functions a process may die, by part.
_CALLS: Final[dict[str, dict[str, str]]] = {
    "serve": {
        "group write": "pixconnect.kernel.tables.fact:Changes.write_all",  # after it: before the COMMIT of the group
        "move of the clock": "pixconnect.kernel.tables.clock:move",
        "lot": "pixconnect.features.lots.tables:insert",  # after it: before its COMMIT
        "answer to a lot": "pixconnect.features.lots.service:put_lot",  # after it: kept, and not answered
    },
    "work": {
        "mark": "pixconnect.kernel.tables.order:mark_handed",  # after it: durable, and not sent
        "call": f"{_RAIL}.submit",
        "refund call": f"{_RAIL}.submit_refunds",
        "question": f"{_RAIL}.query",
        "postponement": "pixconnect.kernel.tables.order:postpone",
        "unmark": "pixconnect.kernel.tables.order:unmark",
        "naming": "pixconnect.kernel.tables.order:name_all",
        "group write": "pixconnect.kernel.tables.fact:Changes.write_all",
        "acknowledgement": f"{_RAIL}.acknowledge",
        "answer to a contest": f"{_RAIL}.send",
        "expiry": "pixconnect.doors.worker.orders:expire_charges",
        "look for lots": "pixconnect.features.lots.tables:find_due",
        "end of charges of lots": "pixconnect.features.lots.tables:finish",  # after it: before its COMMIT
        "notice": "pixconnect.features.pix_api.service.key_webhook:make_notice",  # after it: the body is kept, and not sent
        "post": "pixconnect.features.webhooks.service.delivery:attempt",
        "record of the post": "pixconnect.features.webhooks.tables.delivery:record",
    },
    "sandbox": {
        "orders": "pixconnect.features.sandbox.network.tables:insert_orders",  # after it: they are kept, and not answered
        "arrivals": "pixconnect.features.sandbox.network.tables:insert_arrivals",
        "word on orders": "pixconnect.features.sandbox.network.tables:close_orders",
        "word on arrivals": "pixconnect.features.sandbox.network.tables:acknowledge_arrivals",
        "contest": "pixconnect.features.contests.network.infraction:save",  # after it: before its COMMIT
        "fees": "pixconnect.features.sandbox.network.tables:release_fees",  # after it: with the answers on their payments
        "move of the clock": "pixconnect.features.sandbox.network.tables:write_clock",
    },
}
_STANDARD, _WOOVI = "standard:StandardInstitution", "woovi:WooviInstitution"
_CHANGES_THERE: Final = (
    (
        "change there",
        "pixconnect.features.institutions.tables.pending_call:insert_change",
    ),  # after it: before its COMMIT
    (
        "revision noted",
        "pixconnect.features.institutions.tables.pending_call:note_revision",
    ),  # after it: looked at, and not called
    ("revision there", f"pixconnect.features.institutions.adapters.{_STANDARD}.revise_charge"),
    ("removal there", f"pixconnect.features.institutions.adapters.{_STANDARD}.remove_charge"),
    (
        "change here",
        "pixconnect.features.institutions.service.charge_change:_finish",
    ),  # after it: in COMMIT, and not answered
)
_OPENINGS_THERE: Final = (
    ("opening there", f"pixconnect.features.institutions.adapters.{_STANDARD}.open_charge"),
    (
        "opening ended",
        "pixconnect.features.institutions.tables.pending_call:note_opened",
    ),  # before it: in the charge's transaction
)
# The same over an account at an institution, by part. Several functions can share a point.
_REFUNDS_THERE: Final = (
    ("name there", "pixconnect.features.institutions.tables.rail_step:insert"),  # after it: minted, and not called
    *(("refund there", f"pixconnect.features.institutions.adapters.{there}.refund") for there in (_STANDARD, _WOOVI)),
    *(("question there", f"pixconnect.features.institutions.adapters.{there}.read_refund") for there in (_STANDARD, _WOOVI)),
)
_SENDERS: Final = ("efi:EfiInstitution", "inter:InterInstitution", "sicoob:SicoobInstitution", "woovi:WooviInstitution")
_TRANSFERS_THERE: Final = (
    *(("transfer there", f"pixconnect.features.institutions.adapters.{there}.send") for there in _SENDERS),
    *(("question of a transfer there", f"pixconnect.features.institutions.adapters.{there}.read_sent") for there in _SENDERS),
)
_DEFENCES_THERE: Final = (
    ("answer to a contest there", "pixconnect.features.institutions.adapters.efi_contests:EfiContests.defend"),
)
_CALLS_THERE: Final = dict(
    serve=(*_OPENINGS_THERE, *_CHANGES_THERE),
    work=(*_REFUNDS_THERE, *_TRANSFERS_THERE, *_DEFENCES_THERE, *_OPENINGS_THERE, *_CHANGES_THERE),
)
# Between COMMIT and the next step: the answer to the caller, or the message to the rail.
_COMMITS: Final[dict[str, tuple[str, ...]]] = {
    "serve": ("create_charges", "start_transfers", "start_refunds", "deposit_all", "answer_infractions"),
    "work": (
        "write_endings", "receive_credits", "receive_returns", "receive_movements", "receive_blocks",
        "receive_infractions", "answer_infractions", "record_attempts", "name_orders", "write_standard_charges",
    ),
}  # fmt: skip
# Points of a worker that reads a day and closes it, at banks with lists and at banks with files.
_STEPS_OF_A_DAY: Final[dict[str, str]] = {
    "file asked for": "pixconnect.features.institutions.adapters.efi:EfiInstitution.request_day_file",
    "file fetched": "pixconnect.features.institutions.adapters.efi:EfiInstitution.fetch_day_file",
    "file noted": "pixconnect.features.institutions.tables.statement_file:write",
    "end told": "pixconnect.features.institutions.adapters.inter:InterInstitution.read_closing_balance",
    "end noted": "pixconnect.features.institutions.tables.day:write_closing",
    "ends forgotten": "pixconnect.features.institutions.tables.day:forget_closings",
    "lines kept": "pixconnect.features.institutions.tables.item:add",
    "days told": "pixconnect.features.institutions.tables.day:write_reported",
    "lines joined": "pixconnect.features.institutions.tables.item:join",
    "line posted": "pixconnect.features.movements.service:post_statement_item",
    "days judged": "pixconnect.features.institutions.tables.day:write_states",
    "reading ended": "pixconnect.features.institutions.tables.day:write",
}
POINTS_OF_A_DAY: Final = tuple(f"work {moment} {name}" for name in _STEPS_OF_A_DAY for moment in ("before", "after"))
"""Points of ``support.dying_work``, as below."""
# Points of an operator's process that confirms an answer about lines.
_STEPS_OF_AN_ANSWER: Final[dict[str, str]] = {
    "answer noted": "pixconnect.kernel.tables.proposal:confirm",
    "lines locked": "pixconnect.features.institutions.tables.item:lock_alone",
    "no money noted": "pixconnect.features.institutions.tables.item:note_waiting",
    "lines struck": "pixconnect.features.institutions.tables.item:strike",
    "answer recorded": "pixconnect.kernel.flows.audit:record",  # after it: before COMMIT
    "line posted": "pixconnect.features.movements.service:post_statement_item",
    "lines joined": "pixconnect.features.institutions.tables.item:join",
    "days judged": "pixconnect.features.institutions.tables.day:write_states",
}
POINTS_OF_AN_ANSWER: Final = tuple(f"confirm {moment} {name}" for name in _STEPS_OF_AN_ANSWER for moment in ("before", "after"))
POINTS: Final = tuple(
    f"{part} {moment} {name}" for part, calls in _CALLS.items() for name in calls for moment in ("before", "after")
) + tuple(f"{part} after COMMIT of {name}" for part, names in _COMMITS.items() for name in names)

_STEPS_OF_A_TAKEOVER: Final = {
    "ids moved ahead": "pixconnect.kernel.tables.installation:move_ids_ahead",  # after it: it survives a rollback
    "new primary noted": "pixconnect.kernel.tables.installation:note_server",  # after it: before its COMMIT
}
_TAKEOVER: Final = dict.fromkeys(("serve", "work"), tuple(_STEPS_OF_A_TAKEOVER.items()))
POINTS_OF_A_TAKEOVER: Final = tuple(
    f"{part} {moment} {name}" for part in _TAKEOVER for name in _STEPS_OF_A_TAKEOVER for moment in ("before", "after")
)
"""Where a process finds another server than before."""

POINTS_THERE: Final = tuple(
    f"{part} {moment} {name}" for part, calls in _CALLS_THERE.items() for name in dict(calls) for moment in ("before", "after")
)
"""Points of an installation with accounts at institutions."""

TARGETS: Final = frozenset(
    target
    for calls in (*_CALLS.values(), _STEPS_OF_A_DAY, _STEPS_OF_AN_ANSWER, _STEPS_OF_A_TAKEOVER)
    for target in calls.values()
) | {target for calls in _CALLS_THERE.values() for _, target in calls}
"""The functions of all points."""


KILLABLE = ("env", f"PYTHONPATH={SITE_FOLDER}", sys.executable, "-P", "-m", "pixconnect", "run")
"""The command of an installation with kill points."""


class KillPoints:
    """The test's side of the kill points."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER_NAME
        self._folder.mkdir(parents=True, exist_ok=True)

    def arm(self, point: str, *, stops: bool = False) -> None:
        """Let the next process that reaches the point die, or stop until it is continued."""
        assert point in (*POINTS, *POINTS_THERE, *POINTS_OF_A_DAY, *POINTS_OF_AN_ANSWER, *POINTS_OF_A_TAKEOVER), point
        # Renamed with its content complete, because a process may be looking for it.
        file = self._folder.parent / f"{FOLDER_NAME} {point}"
        file.write_text(_STOPS if stops else "")
        file.rename(self._folder / point)

    def disarm(self, point: str) -> bool:
        """Disarm a point; returns whether no process had reached it."""
        try:
            (self._folder / point).unlink()
        except FileNotFoundError:
            return False
        return True

    def disarm_all(self) -> int:
        armed = list(self._folder.iterdir())
        for file in armed:
            file.unlink(missing_ok=True)
        return len(armed)

    def has_killed(self, point: str) -> bool:
        return not (self._folder / point).exists()


def watch() -> None:
    """Give this process its kill points; other Python processes of the installation have none."""
    words = sys.orig_argv
    home = os.environ.get("PIXCONNECT_HOME")
    if home is None or "-m" not in words:
        return
    part = words[words.index("-m") + 2 :][0]
    if (wires := Path(home) / WIRES_FILE_NAME).exists() and part in _CALLS:
        _reach_by_wires(part, json.loads(wires.read_text()))
    if part == "run":
        # Dying once a second for hours is expected here.
        _replace("pixconnect.platform.local.supervisor:RESTARTS_WINDOW_S", 0.0)
        # Parts run as separate programs, because a forked process has imported its functions already.
        _replace("pixconnect.running.part:start_forks", lambda: None)
    if part == "sandbox":
        # Work of a dead worker is taken over sooner than after five seconds, because many die here.
        _replace("pixconnect.features.sandbox.network.outbox:REDELIVERED_AFTER_S", 1.0)
    if (off := Path(home) / CLOCKS_FOLDER_NAME / part).exists():
        _set_clock_off(timedelta(seconds=int(off.read_text())))
    if (can := Path(home) / ABILITIES_FILE_NAME).exists() and part in {"serve", "work"}:
        rail = importlib.import_module("pixconnect.kernel.rules.rail")
        _replace(f"{_RAIL}.abilities", rail.Abilities(**json.loads(can.read_text())))
    for name, target in (*_CALLS.get(part, {}).items(), *_CALLS_THERE.get(part, ()), *_TAKEOVER.get(part, ())):
        _wrap(Path(home) / FOLDER_NAME, part, name, target)
    if can.exists() and part in {"serve", "work"}:
        # Wrapped first: these rails call the sandbox's.
        importlib.import_module("support.renaming_rail").install()
        importlib.import_module("support.bare_rail").install()
    if part in _COMMITS:
        _wrap_commits(Path(home) / FOLDER_NAME, part)
    # Last, since it imports nearly everything.
    _change_policy(Path(home) / POLICY_FILE_NAME, part)


def change_policy(home: Path, **periods: int) -> None:
    """Change settings of processes with ``SITE_FOLDER`` on their path, from their start."""
    home.mkdir(parents=True, exist_ok=True)
    (home / POLICY_FILE_NAME).write_text(json.dumps(periods))


def _change_policy(file: Path, part: str) -> None:
    if part not in {"serve", "work"} or not file.exists():
        return
    periods: dict[str, int] = json.loads(file.read_text())
    make_policy = importlib.import_module("pixconnect.assembly.base").make_policy
    _replace("pixconnect.assembly.base:make_policy", lambda settings: structs.replace(make_policy(settings), **periods))


def watch_steps(folder: Path, part: Literal["work", "confirm"]) -> None:
    """Let this process be killed at each step of a worker's day, or of the confirmation of an answer."""
    for name, target in (_STEPS_OF_A_DAY if part == "work" else _STEPS_OF_AN_ANSWER).items():
        _wrap(folder, part, name, target)


def _reach_by_wires(part: str, wires: dict[str, str]) -> None:
    """Put cuttable wires between this process and its servers."""
    for name in [name for name in os.environ if name.startswith("PIXCONNECT_")]:
        if part == "sandbox" and name == "PIXCONNECT_RAIL_URL":
            continue  # it listens on that address itself
        for far, near in wires.items():
            os.environ[name] = os.environ[name].replace(far, near)


def _set_clock_off(by: timedelta) -> None:
    class Off(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    _replace("pixconnect.platform.adapters.system:datetime", Off)


def _reach(file: Path) -> None:
    try:
        says = file.read_text()
        file.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP if says == _STOPS else signal.SIGKILL)


def find_owner(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    *owners, attribute = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), attribute


def _replace(target: str, value: object) -> None:
    owner, attribute = find_owner(target)
    assert hasattr(owner, attribute), f"nothing to replace: {target}"
    setattr(owner, attribute, value)


def _wrap(folder: Path, part: str, name: str, target: str) -> None:
    owner, attribute = find_owner(target)
    call = getattr(owner, attribute)
    before, after = folder / f"{part} before {name}", folder / f"{part} after {name}"

    @functools.wraps(call)
    async def wrapped(*arguments: Any, **named: Any) -> Any:
        _reach(before)
        answer = await call(*arguments, **named)
        _reach(after)
        return answer

    setattr(owner, attribute, wrapped)


def _wrap_commits(folder: Path, part: str) -> None:
    queue_class = importlib.import_module("pixconnect.kernel.writing.batch_queue").BatchQueue
    write_once = queue_class._write_once

    async def wrapped(self: Any, *arguments: Any) -> Any:
        outcomes = await write_once(self, *arguments)
        _reach(folder / f"{part} after COMMIT of {self.name}")
        return outcomes

    queue_class._write_once = wrapped
