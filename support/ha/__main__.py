"""``make ha``: three machines on this one until Ctrl-C. The folder PIXCONNECT_HA_HOME keeps their data."""

import os
import signal
import sys
import time
from pathlib import Path

from support.ha.cluster import Cluster
from support.ha.network import GUIDE, Network
from support.ha.programs import find_missing, open_programs
from support.installation import ROOT
from support.production_guide import LOGINS, read_statements

HOME = ROOT / ".pixconnect" / "ha"


def main() -> int:
    missing = find_missing()
    if missing:
        print(missing, file=sys.stderr)  # noqa: T201  a program for people
        return 2
    home = Path(os.environ.get("PIXCONNECT_HA_HOME") or HOME)
    is_new = not home.exists()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    network = Network(prefix=os.environ.get("PIXCONNECT_HA_NETWORK") or GUIDE)
    cluster = Cluster(home, network, open_programs())
    # A shell starts background jobs with SIGINT ignored.
    for ended_by in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ended_by, signal.default_int_handler)
    try:
        cluster.start()
        cluster.wait_until_whole()
        if is_new:
            for statement in read_statements(LOGINS):
                cluster.execute(statement)
        # For another shell: the cluster's manager, and the superuser's way to the primary.
        variables = cluster.machines["one"].environment.items()
        settings = "\n".join(f"export {name}='{value}'" for name, value in variables if name != "PATH")
        patronictl = f"{settings}\nexec {cluster.patronictl_words}"
        psql = f"exec '{cluster.programs.postgres}/psql' --quiet '{cluster.superuser_url}'"
        for name, command in (("patronictl", patronictl), ("psql", psql)):
            (home / name).touch(0o700)
            (home / name).write_text(f'#!/bin/sh\n{command} "$@"\n')
        print(f"{cluster.find_leader()} is the primary, at {network.proxy_address}:5432. Ctrl-C stops.", flush=True)  # noqa: T201
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        cluster.stop()
        return 0
    finally:
        cluster.kill()


if __name__ == "__main__":
    sys.exit(main())
