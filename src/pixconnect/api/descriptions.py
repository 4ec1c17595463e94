"""The OpenAPI document and the documentation page, made once for each process."""

from __future__ import annotations

import msgspec

from pixconnect.api import openapi_30
from pixconnect.api.docs_page import render_docs
from pixconnect.api.openapi import describe_interface
from pixconnect.api.operations import list_sections
from pixconnect.api.services import Descriptions
from pixconnect.usecases.policy import Policy


def describe(policy: Policy, *, base_url: str, version: str) -> Descriptions:
    sections = list_sections(is_sandbox=policy.is_sandbox)
    document = describe_interface(sections, base_url=base_url, auth_url=policy.auth_url, version=version)
    # Encoded once: all are served as they are for as long as the process lives.
    return Descriptions(
        openapi=msgspec.json.encode(document),
        openapi_30=msgspec.json.encode(openapi_30.convert(document)),
        docs=render_docs(document, sections).encode(),
    )
