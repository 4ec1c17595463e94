"""The security contact by RFC 9116; without a contact there is no such file."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.platform import environment
from pixconnect.platform.config import SettingsError
from pixconnect.platform.logging import AccessLog
from support.api import Api

TARGET = "/.well-known/security.txt"


async def test_the_file_has_each_contact_in_order_and_an_end_within_a_year(services: Services) -> None:
    named = structs.replace(services, security_contacts=["mailto:seguranca@pix.example", "https://pix.example/seguranca"])
    api = Api(make_application(named, AccessLog(services.context.clock, wanted="off")))
    answer = await api.get(TARGET, token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    fields = [line.split(": ", 1) for line in answer.content.decode().splitlines()]
    assert [value for name, value in fields if name == "Contact"] == [
        "mailto:seguranca@pix.example",
        "https://pix.example/seguranca",
    ]
    told = dict(fields)
    assert told["Canonical"] == f"{services.base_url}{TARGET}"
    left = datetime.fromisoformat(told["Expires"]) - datetime.now(UTC)
    assert timedelta(days=178) < left < timedelta(days=181)


async def test_without_a_contact_there_is_none(api: Api) -> None:
    answer = await api.get(TARGET, token=None)
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("mailto:a@pix.example", True),
        ("mailto:a@pix.example, tel:+55-11-2222-3333,https://pix.example/s", True),
        ("a@pix.example", False),
        ("http://pix.example/s", False),
        ("mailto:a@pix.example\nContact: mailto:b@other.example", False),
        ("mailto:a b@pix.example", False),
        ("mailto:a@pix.example,", False),
    ],
)
def test_a_contact_is_an_address_and_nothing_else(value: str, is_taken: bool) -> None:
    given = {"PIXCONNECT_SECURITY_CONTACTS": value}
    if is_taken:
        assert environment.read_settings(given).security_contacts == value
    else:
        with pytest.raises(SettingsError, match="PIXCONNECT_SECURITY_CONTACTS: must have the form"):
            environment.read_settings(given)
