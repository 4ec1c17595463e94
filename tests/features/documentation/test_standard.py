"""The document of the central bank's API here is valid and complete, and separate from our own document."""

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from pixconnect.features.documentation.api import Descriptions
from pixconnect.features.pix_api.api.frame import PREFIXES
from pixconnect.features.pix_api.api.operations import SPOKEN
from support.api import Api


@pytest.fixture(scope="module")
def document(described: Descriptions) -> Any:
    return json.loads(described.standard().content)


def test_it_is_valid_and_says_everything(document: Any) -> None:
    assert document["openapi"] == "3.0.3"
    validate(document)
    described = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    assert described == {(row.path, row.method) for row in SPOKEN}
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            assert all(parameter["description"] for parameter in operation["parameters"])
            # Omissions in the central bank's own document.
            assert {"400", "401", "403", "404", "503"} <= operation["responses"].keys()
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name
        for field, part in schema["properties"].items():
            # The parameters of the query in the answer, each described elsewhere.
            assert part.get("description") or name.startswith("Parametros"), f"{name}.{field}"


async def test_it_is_served_outside_the_prefixes_without_a_token(api: Api, document: Any) -> None:
    answer = await api.get("/pix/openapi.json", token=None)
    assert (answer.status, answer.body) == (200, document)


def test_the_contracts_document_has_nothing_of_this_door(described: Descriptions) -> None:
    paths = json.loads(described.openapi().content)["paths"]
    assert not [path for path in paths if path.startswith((*PREFIXES, "/pix"))]
