"""Metrics of cases and of proof runs, and open cases for the health check."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, get_args

from msgspec import Struct

from pixconnect.doors.worker.parts import Gauge, HealthCheck, Meter, age_s, counted
from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import CaseKind
from pixconnect.features.proof.tables import run as run_store
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.proof import Extent
from pixconnect.platform.base import errors


class _Runs(Struct, frozen=True, kw_only=True):
    broken: Mapping[str, int]
    ages_s: Mapping[str, float]
    """Empty without a run."""
    took_s: Mapping[str, float]


async def _look_at_cases(context: Context, _now: datetime) -> Mapping[str, tuple[int, float]]:
    found, real_now = await case_store.count_open(context.pool), context.clock.real_now()
    ages = {kind: (count, age_s(oldest_at, real_now)) for kind, (count, oldest_at) in found.items()}
    return {kind: ages.get(kind, (0, 0.0)) for kind in get_args(CaseKind)}


async def _look_at_runs(context: Context, _now: datetime) -> _Runs:
    runs = {extent: await run_store.find_last_ended(context.pool, extent) for extent in get_args(Extent)}
    ended = [(extent, run.began_at, run.ended_at) for extent, run in runs.items() if run is not None and run.ended_at]
    real_now = context.clock.real_now()
    return _Runs(
        broken=await run_store.count_broken(context.pool),
        ages_s={extent: age_s(ended_at, real_now) for extent, _, ended_at in ended},
        took_s={extent: age_s(began_at, ended_at) for extent, began_at, ended_at in ended},
    )


# fmt: off
METERS: Final = (
    Meter[Mapping[str, tuple[int, float]]](look=_look_at_cases, gauges=(
        Gauge("pixconnect_cases", ("kind",),
            "Cases that are open: what an institution or the rail says and the books do not, or the other way round; see "
            "`pixconnect case list`.",
            lambda cases: {kind: count for kind, (count, _) in cases.items()}),
        Gauge("pixconnect_case_oldest_open_age_seconds", ("kind",),
            "How long ago the oldest of these was found; 0 if there is none.",
            lambda cases: {kind: oldest_s for kind, (_, oldest_s) in cases.items()}),
    )),
    Meter[_Runs](look=_look_at_runs, gauges=(
        Gauge("pixconnect_verify_broken", ("rule",),
            "What `pixconnect verify` found wrong when it last looked at everything, and at changes since, by rule; the health "
            "check uses it.",
            lambda runs: runs.broken),
        Gauge("pixconnect_verify_age_seconds", ("extent",),
            "How long ago the last run of `pixconnect verify` over everything (whole), or over changes, has ended.",
            lambda runs: runs.ages_s),
        Gauge("pixconnect_verify_seconds", ("extent",),
            "How long that run took.",
            lambda runs: runs.took_s),
    )),
)
# fmt: on


async def _count_apart(context: Context) -> int:
    found = (await case_store.count_open(context.pool)).get("account")
    return found[0] if found else 0


PROBLEMS: Final = (
    counted(
        *("institutions", _count_apart, "account at an institution has", "accounts at institutions have"),
        "another balance there than in the books",
    ),
)


async def check_books(context: Context) -> None:
    """Raise ``ServiceUnavailable`` if anything is known to be wrong in the books."""
    if broken := await run_store.count_broken(context.pool):
        raise errors.ServiceUnavailable(
            f"`pixconnect verify` has found {sum(broken.values())} things wrong in the books, by {len(broken)} rules: run it "
            "with --whole, and read what each may mean and what to do"
        )


CHECKS: Final = (HealthCheck("books", check_books),)
