"""The asymmetric signatures of webhooks: one for an event and its minute, whoever is told and however often.

An event has one holder, so what its signature says beside the body (``domain/webhook_signature.py``) is the same for all of its
endpoints. Signing is dear, so a signature is used again while it is young enough, and while its key still signs.
"""

from collections import OrderedDict
from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.domain.delivery import DueDelivery
from pixconnect.domain.signing import Signer
from pixconnect.domain.webhook_signature import jws_header

USED_FOR_S: Final = 45
"""A receiver is promised one that is at most a minute older than the attempt: the rest is for the exchange itself."""
_KEPT_MAX: Final = 8192


class _Signature(Struct, frozen=True, kw_only=True):
    jws: str
    kid: str
    issued_s: int


class EventSignatures:
    """Signs events.

    Args:
        signer: With the current key.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._kept: OrderedDict[int, _Signature] = OrderedDict()

    def sign(self, delivery: DueDelivery, real_now: datetime) -> str:
        """The detached JWS of an event for its holder.

        Raises:
            ServiceUnavailable: There is no key to sign with.
        """
        now_s, kid = int(real_now.timestamp()), self._signer.current_kid
        kept = self._kept.get(delivery.event_id)
        if kept is not None and kept.kid == kid and 0 <= now_s - kept.issued_s <= USED_FOR_S:
            return kept.jws
        header = jws_header(delivery.holder_id, delivery.event_id, now_s)
        jws = self._signer.sign_detached(delivery.body.encode(), header)
        self._kept[delivery.event_id] = _Signature(jws=jws, kid=kid, issued_s=now_s)
        self._kept.move_to_end(delivery.event_id)
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return jws
