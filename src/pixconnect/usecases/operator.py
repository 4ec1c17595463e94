"""What the operator's use cases need: less than a whole context, so that a command line can have it without a rail.

What the command line opens is one of these, and so is what the preparation of the sandbox does; a process's ``Context`` is
not: it works as the service, which may not do what operators do. The keyring is a ``SigningContext``: it is made before the
context, whose signer it is.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pixconnect.domain.clock import Clock
from pixconnect.domain.entropy import Entropy
from pixconnect.domain.secret_box import SecretBox
from pixconnect.foundation.pool import Pool
from pixconnect.usecases.context import HasClock, HasEntropy, HasPolicy, HasPool, Policy


class SigningContext(HasPool, HasClock, HasPolicy, Protocol):
    """What making and reading signing keys needs."""

    @property
    def secret_box(self) -> SecretBox:
        """Seals what is secret at rest."""
        ...


class TokenContext(SigningContext, HasEntropy, Protocol):
    """What issuing tokens needs."""


class OperatorContext(TokenContext, Protocol):
    """What onboarding needs; its pool's role is ``pixconnect_operator``."""

    @property
    def operator(self) -> str:
        """Who does it, as the audit names it."""
        ...


class Operator(Struct, frozen=True, kw_only=True):
    """An ``OperatorContext`` of one who works beside the service."""

    pool: "Pool"
    """Connections as ``pixconnect_operator``."""
    clock: "Clock"
    entropy: "Entropy"
    policy: "Policy"
    secret_box: "SecretBox"
    operator: str
