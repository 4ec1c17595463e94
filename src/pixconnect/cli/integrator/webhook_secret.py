"""New secrets that sign webhooks."""

import base64
import secrets

from pixconnect.domain.webhooks.signature import SECRET_PREFIX


def make_webhook_secret() -> str:
    """A new one, as the Standard Webhooks specification has them."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
