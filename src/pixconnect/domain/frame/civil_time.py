"""The civil clock of Sao Paulo, by which limits, statements and the console count days and hours.

It is the zone and not a fixed offset of three hours: until February 2019 summers were an hour ahead, a day of then is what it
was for those who lived it, and PostgreSQL groups the console's figures by the same zone. A law that brings summer time back
changes the zone's file, which the package ``tzdata`` has where the system has none.
"""

from typing import Final
from zoneinfo import ZoneInfo

SAO_PAULO: Final = ZoneInfo("America/Sao_Paulo")
