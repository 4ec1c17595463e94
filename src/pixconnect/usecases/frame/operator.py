"""What the operator's use cases need: less than a whole context, so that the command line works without a rail.

The command line and the preparation of the sandbox open an ``Operator``. A process's ``Context`` is no ``OperatorContext``: it
connects as the service, whose role may not do what operators do. The keyring is a ``SigningContext`` itself, because it is
made before the context that it signs for.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.foundation.pool import Pool
from pixconnect.usecases.frame.context import HasClock, HasEntropy, HasPolicy, HasPool, HasSecretBox
from pixconnect.usecases.frame.policy import Policy


class SigningContext(HasPool, HasClock, HasPolicy, HasSecretBox, Protocol):
    """What making and reading signing keys needs."""


class TokenContext(SigningContext, HasEntropy, Protocol):
    """What issuing tokens needs."""


class OperatorContext(TokenContext, Protocol):
    """What operators' use cases need; its pool connects as ``pixconnect_operator``."""

    @property
    def operator(self) -> str:
        """The actor, as the audit names it."""
        ...

    @property
    def sending_box(self) -> SecretBox | None:
        """Of credentials that send money over accounts at institutions; ``None`` where there is no key of it."""
        ...


class Operator(Struct, frozen=True, kw_only=True):
    """The ``OperatorContext`` of a person who works beside the service."""

    pool: Pool
    clock: Clock
    entropy: Entropy
    policy: Policy
    secret_box: SecretBox
    operator: str
    sending_box: SecretBox | None = None


def acting_as(context: OperatorContext, operator: str) -> Operator:
    """The same for another person, as the audit names them: in the console one process acts for many."""
    return Operator(
        pool=context.pool,
        clock=context.clock,
        entropy=context.entropy,
        policy=context.policy,
        secret_box=context.secret_box,
        operator=operator,
        sending_box=context.sending_box,
    )
