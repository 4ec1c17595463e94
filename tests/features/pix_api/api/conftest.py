"""The central bank's API in this process, with use cases and a real database."""

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.logging import AccessLog
from support.api import Api, HolderVerifier
from support.service import Service, open_holder


@pytest.fixture
async def other_caller(service: Service) -> Caller:
    return await open_holder(service, account_number="2", funds_cents=1_000_000)


@pytest.fixture
def door(services: Services, service: Service, caller: Caller, other_caller: Caller) -> Api:
    """The application over the service; ``good`` is the caller's token."""
    verifier = HolderVerifier({"good": caller, "other": other_caller})
    served = structs.replace(services, context=service.context, verifier=verifier)
    return Api(make_application(served, AccessLog(service.context.clock, wanted="off")))
