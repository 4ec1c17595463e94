"""The form of an account at any institution. Whether the account exists is for that institution to say.

Source: SPI message catalogue 5.13.1, pacs.008, identifiers of account, branch and participant.
"""

import re
from typing import Final

from pixconnect.domain.frame import errors

BRANCH: Final = re.compile(r"[0-9]{1,4}")
_ACCOUNT_NUMBER: Final = re.compile(r"[0-9A-Z]{1,20}")
ACCOUNT_DIGITS: Final = re.compile(r"[0-9]{1,20}")
"""What institutions' own interfaces take of it."""
ISPB: Final = re.compile(r"[0-9A-Z]{8}")


def check_account(branch: str, account_number: str, ispb: str) -> None:
    """Refuse an account that no institution could have; the message names the first field that is wrong."""
    if not BRANCH.fullmatch(branch):
        raise errors.InvalidAccount("branch: must be 1 to 4 digits")
    if not _ACCOUNT_NUMBER.fullmatch(account_number):
        raise errors.InvalidAccount("account_number: must be 1 to 20 digits or capital letters, without marks")
    if not ISPB.fullmatch(ispb):
        raise errors.InvalidAccount("ispb: must be 8 digits or capital letters")
