"""For programs that use the service: it imports the standard library only, and can be copied as it is."""

from pixconnect.client.api import Client, NoAnswer, Refused
from pixconnect.client.webhook import (
    InvalidWebhook,
    UnknownSigningKey,
    Webhook,
    verify_webhook,
    verify_webhook_body,
    verify_webhook_jws,
)

__all__ = [
    "Client",
    "InvalidWebhook",
    "NoAnswer",
    "Refused",
    "UnknownSigningKey",
    "Webhook",
    "verify_webhook",
    "verify_webhook_body",
    "verify_webhook_jws",
]
