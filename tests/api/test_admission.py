"""A process with as much under way as it can answer in time refuses what would change something, and says so at once."""

from pixconnect.api.application import make_application
from pixconnect.api.services import Services
from pixconnect.foundation.admission import Admission
from pixconnect.foundation.logging import AccessLog
from support.api import Api


async def test_a_full_process_refuses_writes_before_it_reads_them_and_answers_reads(services: Services) -> None:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    application._admission = Admission(0)
    api = Api(application)
    refused = await api.post("/v1/connect/charge", {"no": "charge"})
    assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
    assert (await api.get("/v1/connect/ledger/balance")).status == 404
    application._admission = Admission(1)
    for _ in range(2):
        assert (await api.post("/v1/connect/charge", {"no": "charge"})).status == 400, "what has ended counts no more"
