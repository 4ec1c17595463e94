"""The OpenAPI documents, each made once in a process, at the first request for it."""

from __future__ import annotations

from functools import cache

import msgspec

from pixconnect.api.contract import oauth
from pixconnect.api.docs import documents, openapi
from pixconnect.api.docs.openapi import describe_interface
from pixconnect.api.docs.records import Schema
from pixconnect.api.docs.standard import describe_door
from pixconnect.api.frame.document import KeptDocument
from pixconnect.api.frame.operation import Descriptions
from pixconnect.api.operations import list_sections
from pixconnect.api.standard.operations import SPOKEN
from pixconnect.domain.identity.access import SCOPE_TEXTS
from pixconnect.usecases.frame.context import Policy


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
