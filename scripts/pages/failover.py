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

Effects on callers while the database of [high availability](../guides/high-availability.md) fails, on three machines one after
the other. `make docs` writes this page from the results of a run, `support/failover/results.json`.

```sh
make failover PIXCONNECT_FAILOVER_SEED={seed} PIXCONNECT_FAILOVER_ROUNDS={count} PIXCONNECT_FAILOVER_WRITE=1
```

## What runs

One installation with the simulated network, and a live one with its account at [Efi's face](faces.md) of a third, which
never fails. Both use the cluster through HAProxy. Callers of {holders} holders and of the account request transfers by key,
by account and between holders, charges and their payments, refunds, balances and reads. Without an answer they repeat the
request under the same name. Each answer is stored outside of the database before the next request. Each machine is pinned
to a core, in turn. A failure begins after {calm:.0f} s with one primary, two standbys and three answering etcd.

| What failed | How |
|---|---|
{kinds}

## Checks

As after [chaos](chaos.md): everything comes to rest, then the history of all answers, both sides of the rail, the live
installation's books and its bank's, webhooks, and `pixconnect verify --whole` are checked. No process of the service may have
restarted. "Seconds without writes" is the longest time between two acknowledged writes of all callers of the first
installation.

## Results
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
{outcome.when}, {outcome.cores_count} shared cores (load {outcome.load[0]:.0f} at the beginning,
{outcome.load[1]:.0f} at the end), {outcome.lasted_s / 60:.0f} minutes. {outcome.payments_a_second:.0f} payments a second were
acknowledged without failures.

| | |
|---|---|
| failures | {len(outcome.rounds)} |
| writes acknowledged | {outcome.payments_count}, and {outcome.payments_there_count} at the account |
| found | {_say_found(outcome)} |
| seconds without writes | p50 {median(silent):.1f}, max {max(silent):.1f}; above {WITHOUT_WRITES_MAX_S:.0f}: {len(late)} |
| of these while etcd logged a lack of CPU or a slow disk | {_say_starved(starved)} |
| not made | {", ".join(outcome.not_made) or "none"} |

{write_table(outcome.rounds)}
The last two columns cover requests from {NOTICED_WITHIN_S:.0f} s after the last acknowledged write until the next
([effects on callers before that](../guides/high-availability.md#what-callers-see)). Refusals above 50 a second of one holder
are [delayed](../explanations/fairness.md). 422 is left out: an amount above the balance, a refund of a returned
payment.
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
