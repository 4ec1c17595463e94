"""Tells a replay from a conflict: two requests of one ``external_id`` have the same contents or they do not."""

from hashlib import blake2b

import msgspec
from msgspec import Struct

_encode = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(request: Struct) -> bytes:
    """Sixteen bytes that stand for the contents of a request.

    The operation counts, defaults count as if they had been sent, the order of fields does not, and texts are taken as they
    were sent. ``external_id`` is left out: it is what the fingerprint is compared under, and the service may have made it.

    Args:
        request: One of the request records; its type stands for the operation.
    """
    contents = msgspec.structs.asdict(request)
    contents["external_id"] = type(request).__name__
    return blake2b(_encode(contents), digest_size=16).digest()
