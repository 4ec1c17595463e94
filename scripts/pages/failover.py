"""The page on failovers, from the recorded results of ``make failover``."""

from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from support.failover.failing import SAYS
from support.failover.run import Outcome
from support.failover.told import NOTICED_WITHIN_S, WITHOUT_WRITES_MAX_S, Round, write_table

RESULTS: Final = Path(__file__).resolve().parents[2] / "support" / "failover" / "results.json"

_HEAD: Final = """# Failovers

What callers were told while the database of [the guide](../guides/high-availability.md) failed: three machines, one after the
other, while callers pay. `make docs` writes this page from `support/failover/results.json`, which a run has left.

```sh
make failover PIXCONNECT_FAILOVER_SEED={seed} PIXCONNECT_FAILOVER_ROUNDS={count} PIXCONNECT_FAILOVER_WRITE=1
```

## What runs

One installation with the simulated network, and a live one whose account lies at [Efi's face](faces.md) of a third, which
never fails. Both have their tables in the cluster, by HAProxy. Callers of {holders} holders and of the account ask for
transfers by key, by account and between holders, charges and their payments, refunds, balances and looks; who gets no
answer asks again under the same name until there is one. Each answer stands in a book outside of the database before the
next is asked for.
Each machine is pinned to a core, in turn. A failure begins when everything has been whole for {calm:.0f} s: one machine
writes, two follow it, all three etcd answer.

| What failed | How |
|---|---|
{kinds}

## Who judges

As after [chaos](chaos.md): everything comes to rest, then the history of all answers, both sides of the rail, the books of
the live installation against its bank's, webhooks, and `pixconnect verify --whole`. No process of the service may have been
started again. "Seconds without writes" is the longest time between two writes that were acknowledged, of all callers of the
first installation together.

## What ran
"""


def write_page() -> str:
    outcome = msgspec.json.decode(RESULTS.read_bytes(), type=Outcome)
    silent = [each.silent_s for each in outcome.rounds]
    starved = [each for each in outcome.rounds if each.starved]
    late = [each.silent_s for each in outcome.rounds if each.silent_s > WITHOUT_WRITES_MAX_S]
    head = _HEAD.format(
        seed=outcome.seed,
        count=len(outcome.rounds),
        holders=6,
        calm=4,
        kinds="\n".join(f"| {kind} | {said} |" for kind, said in SAYS.items()),
    )
    return f"""{head}
{outcome.when}, {outcome.cores_count} cores that others used too (load {outcome.load[0]:.0f} at the beginning,
{outcome.load[1]:.0f} at the end), {outcome.lasted_s / 60:.0f} minutes. {outcome.payments_a_second:.0f} payments a second were
acknowledged while all was well.

| | |
|---|---|
| failures | {len(outcome.rounds)} |
| writes acknowledged | {outcome.payments_count}, and {outcome.payments_there_count} at the account |
| found | {_say_found(outcome)} |
| seconds without writes | p50 {median(silent):.1f}, max {max(silent):.1f}; above {WITHOUT_WRITES_MAX_S:.0f}: {len(late)} |
| of these while etcd's log says that it lacked CPU, or its disk was slow | {_say_starved(starved)} |
| not made | {", ".join(outcome.not_made) or "none"} |

{write_table(outcome.rounds)}
The last two columns are of what was asked for from {NOTICED_WITHIN_S:.0f} s after the last write that was acknowledged on,
until one was again ([effects on callers before that](../guides/high-availability.md#what-callers-see)).
Refusals that come faster than 50 a second of one
holder are [paced](../explanations/flow-control.md). 422 is left out: an amount above what was left, a refund of what was
returned.
"""


def _say_starved(rounds: list[Round]) -> str:
    longest_s = max((each.silent_s for each in rounds), default=0.0)
    return f"{len(rounds)}, at most {longest_s:.1f} s without writes" if rounds else "none"


def _say_found(outcome: Outcome) -> str:
    if not outcome.findings:
        return "lost 0, doubled 0, cents 0"
    return outcome.note or f"{len(outcome.findings)} findings: " + "; ".join(
        finding.replace("|", "/").replace("\n", " ")[:300] for finding in outcome.findings
    )
