"""Shows who asked for something."""

from pixconnect.cli.frame import output
from pixconnect.store.identity.origin import Origin


def show_origin(origin: Origin) -> output.Shown:
    return {
        "kind": origin.kind,
        "id": origin.id,
        "holder_id": origin.holder_id,
        "at": origin.at,
        **show_asker(origin),
    }


def show_asker(origin: Origin) -> output.Shown:
    return {
        "client_id": origin.client_id,
        "token_id": origin.jti,
        "peer": origin.peer,
        "request_id": origin.request_id,
        "operator": origin.operator,
    }
