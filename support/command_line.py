"""The command line as an operator uses it: a process with its output and exit status."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from pixconnect.features.webhooks.rules.endpoint import endpoint_seal
from pixconnect.platform.adapters.secret_box import AesSecretBox
from pixconnect.platform.adapters.system import SystemEntropy
from support.identity import SECRET_KEY
from support.operators import has_second_login
from support.postgres import Addresses, log_in_second
from support.verbs import run_forked

_SECRET = AesSecretBox(SECRET_KEY, SystemEntropy()).seal(b"a secret of an endpoint", endpoint_seal(5))
DISABLED_ENDPOINT = f"""
    insert into pixconnect.webhook_endpoint (id, holder_id, url, event_types, status, status_reason, secret, first_failure_at,
        created_at, modified_at)
    values (5, 1, 'https://shop.example/pix', '{{qrcode.approved}}', 'disabled', 'failed for five days', '\\x{_SECRET.hex()}',
        now(), now(), now());
    select setval('pixconnect.webhook_endpoint_id', 5)
"""
"""An endpoint of holder 1 that cannot be reached."""

OPEN_CHARGE = """
    insert into pixconnect.charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
        created_at, modified_at, expires_at)
    values (7, 1, 'c7', '', repeat('a', 32), 1000, 'ana@shop.example', repeat('a', 32), 'PENDING', 7, now(), now(),
        now() + '1 day');
    select setval('pixconnect.charge_id', 1)
"""
"""An unpaid charge of holder 1."""


LIVE = dict(
    PIXCONNECT_MODE="live",
    PIXCONNECT_INSTITUTION_NAME="Loja",
    PIXCONNECT_ISPB="12345678",
    PIXCONNECT_BASE_URL="https://pix.shop.example",
    PIXCONNECT_TRUSTED_PROXIES="127.0.0.1/32",
)
"""The environment variables that live mode needs."""


class CommandLine:
    """``pixconnect`` beside a database; ``environment`` has all settings."""

    def __init__(self, database: Addresses, home: Path, **environment: str) -> None:
        self._second_url = log_in_second(database.service_url)
        self._environment = {
            "PATH": os.environ["PATH"],
            "PIXCONNECT_HOME": str(home),
            "PIXCONNECT_SECRET_KEY": base64.urlsafe_b64encode(SECRET_KEY).decode().rstrip("="),
            "DATABASE_URL": database.service_url,
            "COLUMNS": "240",
            "NO_COLOR": "1",
        } | environment

    def run(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a verb with any result. Verbs that confirm use another database login than those that propose."""
        named = arguments[arguments.index("--operator") + 1] if "--operator" in arguments else ""
        if has_second_login(environment.get("PIXCONNECT_OPERATOR", named)):
            environment["PIXCONNECT_OPERATOR_DATABASE_URL"] = self._second_url
        return run_forked(arguments, self._environment | environment)

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run a verb with ``--json`` that must succeed, and return its object."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return msgspec.json.decode(done.stdout, type=dict[str, Any])

    def refusal(self, *arguments: str, **environment: str) -> str:
        """Run a verb that must fail, and return its error line."""
        done = self.run(*arguments, **environment)
        assert done.returncode != 0
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.rstrip("\n")

    def create_holder(self, account_number: str = "1001") -> str:
        made = self.json(
            "holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725", "--account-number", account_number
        )
        return str(made["holder_id"])
