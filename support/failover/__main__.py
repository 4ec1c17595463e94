"""``make failover``, with PIXCONNECT_FAILOVER_SEED and PIXCONNECT_FAILOVER_ROUNDS; exits with 1 if anything was found.

``docs/reference/failover.md`` has the results of a run.
"""

import os
import sys
from random import SystemRandom

from support.failover.failing import KINDS, plan
from support.failover.run import Options, run
from support.failover.told import write_table
from support.ha.programs import find_missing


def main() -> int:
    missing = find_missing()
    if missing:
        print(missing, file=sys.stderr)  # noqa: T201  a program for people
        return 2
    seed = int(os.environ.get("PIXCONNECT_FAILOVER_SEED") or SystemRandom().randrange(10**6))
    rounds_count = int(os.environ.get("PIXCONNECT_FAILOVER_ROUNDS") or 56)
    kinds = [kind for kind in KINDS if kind in os.environ.get("PIXCONNECT_FAILOVER_KINDS", ",".join(KINDS)).split(",")]
    print(f"seed {seed}, {rounds_count} failures", flush=True)  # noqa: T201  likewise
    options = Options(seed=seed, failures=plan(seed, rounds_count, kinds))
    outcome = run(options, lambda line: print(line, flush=True))  # noqa: T201  likewise
    for finding in outcome.findings:
        print(f"FOUND: {finding[:3000]}")  # noqa: T201  likewise
    print(write_table(outcome.rounds))  # noqa: T201  likewise
    print(outcome.says())  # noqa: T201  likewise
    print(f"books and logs: {outcome.folder}")  # noqa: T201  likewise
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
