"""What one connection may cost us, and all of them together: octets, headers, descriptors, time."""

from typing import Final

# Octets read from a socket at once. Anything a client sends beyond one slice before it has its answer stays in the kernel.
SLICE_MAX: Final = 16 * 1024
# Octets of a request line with its headers.
HEAD_MAX: Final = 16 * 1024
# Headers of a request.
FIELDS_MAX: Final = 128
# Octets around and after the chunks of a body, and one more for each eight octets of body. They are read and dropped.
TRAILERS_MAX: Final = 1024
# As many of those octets count for each blank line in a chunk, where what we read is cut.
CUT_COSTS: Final = 32
# Octets in and around chunks that are parsed before it is looked at how much is around them.
CHUNKS_AT_ONCE: Final = 2 * 1024
# Octets of a body that the application has not read yet; more stays in the socket.
BODY_HELD_MAX: Final = 128 * 1024
# Octets read and dropped after octets that are not HTTP/1.1.
UNREAD_MAX: Final = 1024 * 1024
# The same of a body that the application no longer wants: twice the largest that any operation takes. Most clients send all
# of a body before they look for the answer, and would never see why one was refused.
UNREAD_BODY_MAX: Final = 8 * 1024 * 1024

# From a connection to its first request.
FIRST_OCTET_TIMEOUT_S: Final = 10
HEAD_TIMEOUT_S: Final = 10
BODY_TIMEOUT_S: Final = 30
# How long a client may leave our answer unread.
STALLED_MAX_S: Final = 30
# How long a client that was refused may go on sending.
LINGER_S: Final = 2
# From an answer to the next request.
KEEP_ALIVE_S: Final = 75
# How long running requests may go on after the stop signal.
GRACE_S: Final = 2.5

# If the process may open that many files; see ``platform/http/listening.py``.
CONNECTIONS_MAX: Final = 10_000
# Octets of unanswered requests, of all connections together.
HELD_IN_ALL_MAX: Final = 64 * 1024 * 1024
# A request that arrives in one piece and is no larger does not count: the number of connections bounds those.
SMALL_MAX: Final = 2 * 1024
# Octets of answers that clients have not read, of all connections together...
UNSENT_IN_ALL_MAX: Final = 64 * 1024 * 1024
# ...and of one, after it had a second to read.
UNSENT_OF_ONE_MAX: Final = 16 * 1024 * 1024
