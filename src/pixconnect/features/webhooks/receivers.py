"""The receivers of webhooks, as a process reaches them."""

from typing import Final

from pixconnect.features.webhooks.rules.delivery import Receivers
from pixconnect.kernel.flows.context import Port

RECEIVERS: Final = Port[Receivers]("receivers")
