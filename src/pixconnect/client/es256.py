"""Checks ES256 signatures with the standard library only: ECDSA over P-256 with SHA-256 (FIPS 186-5, RFC 7518 section 3.4).

The key, the message and the signature are all public, so the time that a step takes gives nothing away. A check costs some
milliseconds: a receiver of very many webhooks uses a library in C, as the guide shows.
"""

import hashlib

_P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_Point = tuple[int, int, int]
"""In Jacobian coordinates: (x / z^2, y / z^3). Where z is 0 it is the point at infinity."""
_INFINITY: _Point = (1, 1, 0)


def is_signed(message: bytes, signature: bytes, x: int, y: int) -> bool:
    """Whether the key (x, y) made this signature, r and s of 32 octets each, over the message."""
    if len(signature) != 64 or not _is_on_curve(x, y):
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if not (0 < r < _N and 0 < s < _N):
        return False
    # Verification as in FIPS 186-5, 6.4.2.
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    inverse = pow(s, -1, _N)
    point = _add_multiples(digest * inverse % _N, (*_GENERATOR, 1), r * inverse % _N, (x, y, 1))
    if point[2] == 0:
        return False
    # The point's x, back from Jacobian coordinates, modulo the order.
    return point[0] * pow(point[2], -2, _P) % _P % _N == r


def _is_on_curve(x: int, y: int) -> bool:
    return 0 <= x < _P and 0 <= y < _P and (y * y - (x * x * x - 3 * x + _B)) % _P == 0


def _add_multiples(a: int, first: _Point, b: int, second: _Point) -> _Point:
    """The sum of a times the first point and b times the second, doubling once for both (Shamir's trick)."""
    summands = {("1", "0"): first, ("0", "1"): second, ("1", "1"): _add(first, second)}
    total = _INFINITY
    for bits in zip(f"{a:0256b}", f"{b:0256b}", strict=True):
        total = _double(total)
        if bits in summands:
            total = _add(total, summands[bits])
    return total


def _double(point: _Point) -> _Point:
    x, y, z = point
    if z == 0:
        return point
    y_squared = y * y % _P
    share = 4 * x * y_squared % _P
    slope = 3 * (x - z * z) * (x + z * z) % _P
    doubled_x = (slope * slope - 2 * share) % _P
    return doubled_x, (slope * (share - doubled_x) - 8 * y_squared * y_squared) % _P, 2 * y * z % _P


def _add(first: _Point, second: _Point) -> _Point:
    if first[2] == 0:
        return second
    if second[2] == 0:
        return first
    (x1, y1, z1), (x2, y2, z2) = first, second
    z1_squared, z2_squared = z1 * z1 % _P, z2 * z2 % _P
    u1, u2 = x1 * z2_squared % _P, x2 * z1_squared % _P
    s1, s2 = y1 * z2 * z2_squared % _P, y2 * z1 * z1_squared % _P
    # The formulas for a sum fail for equal points, and for opposite ones, whose sum is infinity.
    if u1 == u2:
        return _double(first) if s1 == s2 else _INFINITY
    h, slope = (u2 - u1) % _P, (s2 - s1) % _P
    h_squared = h * h % _P
    h_cubed, share = h * h_squared % _P, u1 * h_squared % _P
    x = (slope * slope - h_cubed - 2 * share) % _P
    return x, (slope * (share - x) - s1 * h_cubed) % _P, h * z1 * z2 % _P
