"""The steps that make the service's tables: the files of the kernel, then ``schema.sql`` of each feature."""

from typing import Final

from pixconnect.kernel.feature import list_names
from pixconnect.platform.migrations import Steps, read_steps

SERVICE_SCHEMA: Final = "pixconnect"


def read_service_steps() -> Steps:
    """In the order of the features: a feature's tables may refer to those of the kernel and of features before it."""
    return read_steps("pixconnect.kernel", tuple(f"pixconnect.features.{name}" for name in list_names()))
