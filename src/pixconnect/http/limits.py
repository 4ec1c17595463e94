"""What one connection may cost us, and what all of them together may: octets, fields, requests, descriptors, time."""

from typing import Final

SLICE_MAX: Final = 16 * 1024
"""Octets read from a socket and parsed at once: what is sent ahead of an answer stays in the kernel but for one slice."""
HEAD_MAX: Final = 16 * 1024
"""Octets of a request line with its headers."""
FIELDS_MAX: Final = 128
"""Headers of a request."""
TRAILERS_MAX: Final = 1024
"""Octets after a chunked body, or around its chunks without one octet of body. They are read and dropped."""
BODY_HELD_MAX: Final = 128 * 1024
"""Octets of a body that the application has not read yet; more stays in the socket."""
UNREAD_MAX: Final = 1024 * 1024
"""Octets thrown away of a body that nobody reads any more."""

FIRST_OCTET_TIMEOUT_S: Final = 10
"""From a connection to its first request."""
HEAD_TIMEOUT_S: Final = 10
BODY_TIMEOUT_S: Final = 30
STALLED_MAX_S: Final = 30
"""How long a client may leave our answer unread."""
LINGER_S: Final = 2
"""How long a client that was refused may go on sending."""
KEEP_ALIVE_S: Final = 75
"""From an answer to the next request."""
GRACE_S: Final = 2.5
"""How long requests under way may go on after the server was told to stop."""

CONNECTIONS_MAX: Final = 10_000
"""Where the process may open that many; see ``http/descriptors.py``."""
HELD_IN_ALL_MAX: Final = 64 * 1024 * 1024
"""Octets of requests that are not answered yet, of all connections."""
SMALL_MAX: Final = 2 * 1024
"""A request that arrives at once and is no larger is not counted among them: the number of connections bounds those."""
UNSENT_IN_ALL_MAX: Final = 64 * 1024 * 1024
"""Octets of answers that clients do not read, of all connections."""
UNSENT_OF_ONE_MAX: Final = 16 * 1024 * 1024
"""The same of one connection, after a second in which to read."""
