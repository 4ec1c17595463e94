"""The OpenAPI documents, each built once per process, at its first request."""

from __future__ import annotations

from functools import cache

import msgspec

from pixconnect.assembly.operations import list_sections
from pixconnect.doors.api.document import KeptDocument
from pixconnect.features.documentation import documents, openapi
from pixconnect.features.documentation.documents import Descriptions
from pixconnect.features.documentation.openapi import describe_interface
from pixconnect.features.documentation.records import Schema
from pixconnect.features.documentation.standard import describe_door
from pixconnect.features.identity import api as oauth
from pixconnect.features.pix_api.api.operations import SPOKEN
from pixconnect.kernel.flows.context import Policy
from pixconnect.kernel.rules.access import SCOPE_TEXTS


def describe(policy: Policy, *, base_url: str, version: str) -> Descriptions:
    sections = list_sections(is_sandbox=policy.is_sandbox)

    @cache
    def document() -> Schema:
        return describe_interface(sections, base_url=base_url, auth_url=policy.auth_url, version=version)

    def door() -> Schema:
        token_url = policy.auth_url + oauth.TOKEN_PATH
        return describe_door(SPOKEN, dict[str, str](SCOPE_TEXTS.items()), base_url=base_url, token_url=token_url)

    return Descriptions(
        openapi=cache(lambda: _keep_json(document())),
        openapi_30=cache(lambda: _keep_json(openapi.convert(document()))),
        standard=cache(lambda: _keep_json(door())),
    )


def _keep_json(document: Schema) -> KeptDocument:
    return KeptDocument(msgspec.json.encode(document), documents.OPENAPI_TYPE)
