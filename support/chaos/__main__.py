"""``make chaos``, with PIXCONNECT_CHAOS_SEED and PIXCONNECT_CHAOS_MINUTES; exits with 1 if anything was found.

With PIXCONNECT_CHAOS_THERE=1 the money lies at an institution, which is broken too.
"""

import os
import sys
from random import SystemRandom

from support.chaos.run import Options, run
from support.chaos.there import run_there


def main() -> int:
    seed = int(os.environ.get("PIXCONNECT_CHAOS_SEED") or SystemRandom().randrange(10**6))
    minutes = float(os.environ.get("PIXCONNECT_CHAOS_MINUTES") or 5)
    print(f"seed {seed}, {minutes:g} minutes")  # noqa: T201  a program for people
    run_one = run_there if os.environ.get("PIXCONNECT_CHAOS_THERE") else run
    outcome = run_one(Options(seed=seed, seconds=60 * minutes), lambda line: print(line, flush=True))  # noqa: T201  likewise
    for finding in outcome.findings:
        print(f"FOUND: {finding}")  # noqa: T201  likewise
    print(outcome.says())  # noqa: T201  likewise
    print(f"every answer: {outcome.book}")  # noqa: T201  likewise
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
