"""A client with one reading scope."""

import re
from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.assembly.operations import list_routes
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.logging import AccessLog
from support.api import Api, HolderVerifier
from support.service import Service

SPANS = ("initial_date=2026-01-01T00:00:00Z&final_date=2026-01-02T00:00:00Z",
         "inicio=2026-01-01T00:00:00Z&fim=2026-01-02T00:00:00Z")  # fmt: skip
_END = "99999004202601010000" + "a" * 11
IDS = {"txid": "a" * 32, "e2eid": f"E{_END}", "rtrId": f"D{_END}", "chave": "a@b.example"}


async def test_a_read_needs_no_scope_but_its_own(
    services: Any, service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the stub of the use cases
    routes = [row for row in list_routes(is_sandbox=True) if not row.path.startswith("/faces/")]
    rows = [row for row in routes if row.method == "GET" and row.scope not in (None, "any")]
    callers = {str(row.scope): structs.replace(caller, scopes=frozenset({str(row.scope)})) for row in rows}
    served = structs.replace(services, context=service.context, verifier=HolderVerifier(callers))
    api = Api(make_application(served, AccessLog(service.context.clock, wanted="off")))
    for row in rows:
        path = re.sub(r"\{(.*?)\}", lambda found: IDS.get(found[1], "1"), row.path)
        statuses = {(await api.get(f"{path}?{span}", token=str(row.scope))).status for span in ("", *SPANS)}
        assert statuses & {200, 404}, (row.id, statuses)  # found, or not found, by a use case
