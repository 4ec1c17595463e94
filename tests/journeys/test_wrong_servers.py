"""Servers that are not what an address promises, each a real one: refused at every start in one sentence."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from pixconnect.local.postgres_placement import find_unprivileged_user
from support.home import SECRET_KEY, new_home
from support.installation import run_verb
from support.managed_server import HOST, url_of
from support.ports import reserved_port
from support.tls import Authority

OLDER: Final = Path("/usr/lib/postgresql/15/bin")
"""Debian's of 2023, which is too old for us, and speaks TLS, which those of the wheel do not."""
pytestmark = [
    pytest.mark.journey,
    pytest.mark.long,
    pytest.mark.skipif(not OLDER.is_dir(), reason="Debian's postgresql-15 is not installed"),
]


@contextmanager
def open_older_server(authority: Authority, keys: Path) -> Iterator[int]:
    """The port of one that speaks TLS, and proves to be ``localhost``."""
    authority.server_context(HOST)
    user = find_unprivileged_user() if os.geteuid() == 0 else None
    ids = dict(user=user.uid, group=user.gid) if user else {}
    with new_home() as folder, reserved_port() as port:
        data = folder / "data"
        if user:
            os.chown(folder, user.uid, user.gid)
        run = [OLDER / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync"]
        subprocess.run(run, check=True, capture_output=True, cwd="/", env={"LC_ALL": "C"}, **ids)
        key = data / "server.pem"
        key.write_bytes((keys / f"{HOST}-0.pem").read_bytes())
        key.chmod(0o600)
        if user:
            os.chown(key, user.uid, user.gid)
        settings = dict(port=str(port), listen_addresses="127.0.0.1", unix_socket_directories="", fsync="off")
        settings |= dict(ssl="on", ssl_cert_file=str(key), ssl_key_file=str(key))
        words = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        control = [OLDER / "pg_ctl", "-D", data, "-w", "-l", folder / "data" / "log"]
        subprocess.run([*control, "-o", words, "start"], check=True, cwd="/", env={"LC_ALL": "C"}, **ids)
        try:
            yield port
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd="/", **ids)


def test_another_name_another_authority_and_an_older_server_are_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    Authority(tmp_path / "other")
    authority, ca = Authority(tmp_path), tmp_path / "ca.pem"
    with open_older_server(authority, tmp_path) as port, new_home() as home:

        def refuse(verb: str, says: str, authority_file: Path, host: str = HOST) -> None:
            url = url_of("postgres", port, authority_file, "postgres", host)
            refused = run_verb(
                home, verb, owner_database_url=url, database_url=url, operator_database_url=url, secret_key=SECRET_KEY
            )
            assert refused.returncode != 0
            assert says in refused.stderr, (verb, refused.stderr)
            assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr

        for verb in ("migrate", "serve", "work"):
            refuse(
                verb, "look at sslrootcert, and at the name of the server, in PIXCONNECT_DATABASE_URL", ca, "127.0.0.1"
            )
            refuse(verb, "look at sslrootcert", tmp_path / "other" / "ca.pem")
        refuse("migrate", "pixconnect needs 16 or later", ca)
        refuse("serve", "run `pixconnect migrate`", ca)
