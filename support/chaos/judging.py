"""Judge an installation that has come to rest after chaos: books, rail, webhooks, and the answers to callers."""

import json
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pixconnect.doors.cli.failures import ExitStatus
from support.both_sides import Seen
from support.chaos.history import NAMED, UNKNOWN, Call, History, find_contradictions
from support.damage import read_catalogue
from support.money_model import ANY_ENDING, Asked, MoneyModel
from support.verbs import run_forked
from support.whole_installation import Account, WholeInstallation

_OUTAGE_OR_RACE: Final = (
    *(
        "duplicate key value", "canceling statement", "terminating", "read-only transaction", "No space left",
        "out of memory",
    ),
    *("could not obtain lock", "deadlock detected", "the database system is", "connection to client lost"),
)  # fmt: skip
"""PostgreSQL errors that are no violation: conflicts of two processes over one row, and consequences of the faults."""
_LOG_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+ UTC \[\d+\] (?=[A-Z]+:  )")
"""The beginning of each PostgreSQL message. A message that a full disk has truncated is followed by the next one in its
line.
"""
NOT_LOOKED: Final = "verify could not look"
_VERIFY_TIMEOUT_S: Final = 3_600.0  # one hour, since other programs use the machine too
PLANTED: Final = ("a cent from one account to the other", "the last number set back", "the last instant set back")


def judge_history(service: WholeInstallation, accounts: Sequence[Account], calls: Sequence[Call], seen: Seen) -> list[str]:
    """Find what is wrong even while orders are still under way."""
    history = History(calls=calls, things=seen.things, entries=service.read_entries(accounts))
    contradictions = [f"history: {each}" for each in find_contradictions(history)]
    kept = [f"kept report: {each}" for each in service.read_kept()]
    return [*contradictions, *read_refusals(service.installation.home), *read_broken(service), *kept]


def judge(service: WholeInstallation, accounts: Sequence[Account], calls: Sequence[Call], seen: Seen) -> list[str]:
    found = judge_history(service, accounts, calls, seen)
    model = model_of(calls)
    # Orders that do not end are reported elsewhere.
    found += _said_by("both sides", lambda: (model.check_at_rest if seen.is_at_rest else model.check)(seen))
    found += _said_by("webhooks", lambda: service.check_events(accounts))
    return found + verify(service)


def read_refusals(home: Path) -> list[str]:
    """Find statements that a constraint has refused: the service should not send any, though they had no effect."""
    logs = [file for file in (home / "postgres.log.old", home / "postgres.log") if file.exists()]
    # A truncated message may lack its end, so only the last message of a line is judged, and never the end of a file.
    lines = [_LOG_LINE.split(line)[-1] for log in logs for line in log.read_text(errors="replace").split("\n")[:-1]]
    said = Counter(
        line.removeprefix("ERROR:  ")
        for line in lines
        # A login without the permission never succeeds, so this is no outage.
        if line.startswith(("ERROR:  ", "FATAL:  permission denied")) and not any(words in line for words in _OUTAGE_OR_RACE)
    )
    return [f"database's log: refused {number} times: {words}" for words, number in said.most_common(5)]


def read_broken(service: WholeInstallation) -> list[str]:
    """Find violations of the service's own rules in its log."""
    second = service.installation.home / "second.log"
    lines = [*service.installation.said, *(second.read_text(errors="replace").splitlines() if second.exists() else ())]
    broken = [line for line in lines if "InvariantBroken" in line]
    return [f"service's log: a rule of its own was broken {len(broken)} times: {broken[0][-600:]}"] if broken else []


def verify(service: WholeInstallation) -> list[str]:
    """Run an operator's ``verify``: rule, holder, and both figures of each finding."""
    try:
        return [
            f"verify: {each['rule']} of {each['holder_id']} {each['ids']}: {each['found']}, not {each['expected']}"
            for each in _find(service)
        ]
    except _NotLookedError as error:
        return [f"{NOT_LOOKED}: {error}"]


def _find(service: WholeInstallation) -> list[dict[str, Any]]:
    words = ("verify", "--whole", "--again-after-s", "2", "--json")
    ran = run_forked(words, service.installation.environment, timeout_s=_VERIFY_TIMEOUT_S)
    if ran.returncode not in {ExitStatus.DONE, ExitStatus.BROKEN}:
        raise _NotLookedError(ran.stderr[-500:])
    return json.loads(ran.stdout)["findings"]


def judge_planted(service: WholeInstallation, accounts: Sequence[Account]) -> list[str]:
    """Plant damage, each kind at another holder, and check that ``verify`` finds exactly that."""
    kinds = {kind.name: kind for kind in read_catalogue().of_holders}
    expected: set[tuple[str, int]] = set()
    for name, account in zip(PLANTED, accounts, strict=False):
        ids = dict.fromkeys(("seller", "buyer", "debtor"), account.holder_id)
        service.damage(read_catalogue().statements(kinds[name].sql, **ids))
        expected |= {(rule, account.holder_id) for rule in kinds[name].rules}
    try:
        found = {(each["rule"], each["holder_id"]) for each in _find(service)}
    except _NotLookedError as error:
        return [f"{NOT_LOOKED}: {error}"]
    return [f"verify of planted damage: found {found}, not {expected}"] if found != expected else []


def model_of(calls: Iterable[Call]) -> MoneyModel:
    """The requests in the form of the money model."""
    model = MoneyModel()
    for call in calls:
        if call.kind == "deposit" and (call.status == 200 or call.status in UNKNOWN):
            known = model.deposits if call.status == 200 else model.maybe_deposits
            known.setdefault(call.holder_id, Counter())[call.amount_cents] += 1
        if call.kind not in NAMED:
            continue
        asked = model.asked.get((call.kind, call.holder_id, call.name))
        if asked is None:
            asked = model.ask(
                Asked(
                    kind=call.kind, holder_id=call.holder_id, external_id=call.name, amount_cents=call.amount_cents,
                    endings=set(ANY_ENDING[call.kind]),
                )
            )  # fmt: skip
        if call.status == 200:
            asked.told_id = call.id
    return model


def _said_by(what: str, check: Callable[[], None]) -> list[str]:
    try:
        check()
    except AssertionError as error:
        # Many of the model's requests have only a kind.
        asserted = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{what}: {asserted.name}, {asserted.line}: {str(error)[:2000]}"]
    return []


class _NotLookedError(Exception):
    """``verify`` has ended with a status that is no result."""
