"""What the service says about itself: the OpenAPI document and the pages, made once for each process, when first asked for."""

from __future__ import annotations

from functools import cache

import msgspec

from pixconnect.api.contract import oauth
from pixconnect.api.docs import documents, openapi
from pixconnect.api.docs.guides import write_index
from pixconnect.api.docs.openapi import describe_interface
from pixconnect.api.docs.page import render_docs
from pixconnect.api.docs.records import Schema
from pixconnect.api.docs.search import write_search
from pixconnect.api.docs.standard import describe_door
from pixconnect.api.frame import document as browser
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

    def docs() -> KeptDocument:
        # Only a sandbox's page may send requests: where money is real, documentation must not be able to move it.
        allowed = browser.TRYING_POLICY if policy.is_sandbox else browser.DOCS_POLICY
        content = render_docs(document(), sections, is_sandbox=policy.is_sandbox).encode()
        return KeptDocument(content, documents.DOCS_TYPE, allowed)

    def reading() -> KeptDocument:
        content = write_index(base_url, document()["info"]["description"].partition("\n\n")[0])
        return KeptDocument(content.encode(), documents.TEXT_TYPE)

    return Descriptions(
        openapi=cache(lambda: _keep_json(document())),
        openapi_30=cache(lambda: _keep_json(openapi.convert(document()))),
        standard=cache(lambda: _keep_json(door())),
        docs=cache(docs),
        search=cache(lambda: KeptDocument(write_search(document(), sections), documents.SCRIPT_TYPE)),
        reading=cache(reading),
    )


def _keep_json(document: Schema) -> KeptDocument:
    return KeptDocument(msgspec.json.encode(document), documents.OPENAPI_TYPE)
