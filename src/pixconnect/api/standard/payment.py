"""Received Pix at the standard's door."""

from __future__ import annotations

import re
from typing import Final

from pixconnect.api.operation import Reply
from pixconnect.api.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.domain import errors
from pixconnect.usecases import standard_pix as standard_pix_usecases

_END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")


async def get_pix(services: Services, request: Asked) -> Reply:
    """Consulta um Pix recebido.

    Há todo Pix recebido e já liquidado, com suas devoluções.
    """
    end_to_end_id = read_end_to_end_id(request.parameter[0])
    return Reply(
        status=200, record=await standard_pix_usecases.read_pix(services.context, request.caller, end_to_end_id)
    )


def read_end_to_end_id(text: str) -> str:
    """What has another form names nothing: raises ``NotFound``."""
    if not _END_TO_END_ID.fullmatch(text):
        raise errors.NotFound("e2eid: there is no such Pix")
    return text
