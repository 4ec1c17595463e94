"""What the operator's use cases need: less than a whole context, so that a command line can have it without a rail.

A process's ``Context`` is one of these, and so is what the command line opens. The keyring is a ``SigningContext``: it is
made before the context, whose signer it is.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pixconnect.domain.clock import Clock
    from pixconnect.domain.entropy import Entropy
    from pixconnect.domain.secret_box import SecretBox
    from pixconnect.foundation.pool import Pool
    from pixconnect.usecases.context import Policy


class SigningContext(Protocol):
    """What making and reading signing keys needs."""

    @property
    def pool(self) -> "Pool":
        """Connections as ``pixconnect_service``."""
        ...

    @property
    def clock(self) -> "Clock":
        """Time."""
        ...

    @property
    def policy(self) -> "Policy":
        """The operator's rules."""
        ...

    @property
    def secret_box(self) -> "SecretBox":
        """Seals what is secret at rest."""
        ...


class OperatorContext(SigningContext, Protocol):
    """What onboarding needs."""

    @property
    def entropy(self) -> "Entropy":
        """Chance."""
        ...
