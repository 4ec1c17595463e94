"""Certificate chains that are made to be slow, and the limits of an authority."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from pixconnect.features.locations.certificate_chain import CERTIFICATE_OCTETS_MAX, CHAIN_LENGTH_MAX, ChainRefused, verify_chain
from support.calls import CallCounter
from support.institution import NOW, certify, slow_key

HOST = "pix.example"
KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 3072)
ROOT = certify(KEY, "Root", ca=True)


class Public:
    """A key of which only the public half is needed."""

    def __init__(self, key: object) -> None:
        self._key = key

    def public_key(self) -> object:
        return self._key


def verify(chain: Sequence[x509.Certificate], *trusted: x509.Certificate) -> x509.Certificate:
    return verify_chain([one.public_bytes(Encoding.DER) for one in chain], HOST, trusted or [ROOT], NOW)


def hostile_chains() -> Iterator[Any]:
    def climb(key: Any, issuer_key: Any, count: int = CHAIN_LENGTH_MAX) -> list[x509.Certificate]:
        """Certificates with each other's name, so that each may be the issuer of each."""
        above = certify(issuer_key, "A", ca=True)
        return [certify(key, "A", (issuer_key, above), ca=True, hosts=(HOST,)) for _ in range(count)]

    slow = slow_key(RSA_KEY, 3071)
    yield pytest.param(climb(slow, slow), id="a long exponent")
    yield pytest.param(climb(RSA_KEY, RSA_KEY), id="many of one name")
    p521 = ec.generate_private_key(ec.SECP521R1())
    yield pytest.param(climb(p521, p521), id="slow curve")
    names = tuple(f"{number}.{HOST}" for number in range(215))
    long = [certify(KEY, f"A{number}", ca=True, hosts=names) for number in range(CHAIN_LENGTH_MAX)]
    assert len(long[0].public_bytes(Encoding.DER)) > CERTIFICATE_OCTETS_MAX * 0.8
    yield pytest.param(long, id="many names")


@pytest.mark.parametrize("chain", list(hostile_chains()))
def test_a_chain_that_leads_nowhere_costs_little_whatever_its_keys(chain: Sequence[x509.Certificate]) -> None:
    octets = [one.public_bytes(Encoding.DER) for one in chain]
    with CallCounter("verify_directly_issued_by") as counter, pytest.raises(ChainRefused):
        verify_chain(octets, HOST, [ROOT], NOW)
    assert counter.count <= CHAIN_LENGTH_MAX


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (Public(rsa.RSAPublicNumbers(65537, (1 << 2046) + 1).public_key()), "2048 to 4096 bits"),
        (Public(rsa.RSAPublicNumbers(65537, (1 << 4096) + 1).public_key()), "2048 to 4096 bits"),
        (slow_key(RSA_KEY, 33), "below 2\\^32"),
        (ec.generate_private_key(ec.SECP256K1()), "neither RSA nor"),
        (ec.generate_private_key(ec.BrainpoolP256R1()), "neither RSA nor"),
        (ed25519.Ed25519PrivateKey.generate(), "neither RSA nor"),
        (dsa.generate_private_key(1024), "neither RSA nor"),  # noqa: S505  found in no time, and refused at any size
    ],
)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_key_beyond_the_bounds_is_refused_wherever_it_stands(key: Any, reason: str, is_leaf: bool) -> None:
    issuer = KEY, ROOT
    bad, good = (certify(cast(Any, one), "One", issuer, ca=one is key, hosts=(HOST,)) for one in (key, KEY))
    with pytest.raises(ChainRefused, match=reason):
        verify([bad, ROOT] if is_leaf else [good, bad])


def test_keys_just_inside_the_bounds_hold() -> None:
    for key in (slow_key(RSA_KEY, 32), ec.generate_private_key(ec.SECP521R1())):
        leaf = certify(key, "Leaf", (KEY, ROOT), hosts=(HOST,))
        assert verify([leaf]) == leaf


def test_a_certificate_that_is_too_long_is_refused() -> None:
    names = tuple(f"{number}.{HOST}" for number in range(300))
    with pytest.raises(ChainRefused, match="octets"):
        verify([certify(KEY, "Leaf", (KEY, ROOT), hosts=(HOST, *names))])


@pytest.mark.parametrize("seed", range(60))
def test_a_leaf_holds_where_a_way_down_leaves_room_for_all_on_it(seed: int) -> None:
    """Random trees and cross-signed authorities, compared with a search through every order."""
    random = Random(seed)  # noqa: S311  what fails must fail again
    keys = [KEY, *(ec.generate_private_key(ec.SECP256R1()) for _ in range(3))]
    rooms = [random.choice([None, 0, 1, 2]) for _ in range(6)]
    roots = [certify(keys[at], f"R{at}", ca=True, path_length=rooms[at]) for at in range(2)]
    # Below them: authorities issued by either root or an earlier authority.
    made: list[tuple[x509.Certificate, int, Any]] = [(root, -1, key) for root, key in zip(roots, keys, strict=False)]
    for at in range(2, 6):
        by = random.randrange(len(made))
        key = keys[2 + at % 2]
        one = certify(key, f"A{at % 2}", (made[by][2], made[by][0]), ca=True, path_length=rooms[at])
        made.append((one, by, key))
    by = random.randrange(2, len(made))
    leaf = certify(KEY, "Leaf", (made[by][2], made[by][0]), hosts=(HOST,))
    others = [one for one, _, _ in made[2:]]
    random.shuffle(others)
    expected = any(
        _leads_down((root, *way), leaf)
        for root in roots
        for count in range(len(others) + 1)
        for way in itertools.permutations(others, count)
    )
    try:
        found = verify([leaf, *others], *roots) == leaf
    except ChainRefused:
        found = False
    assert found == expected


def _leads_down(way: Sequence[x509.Certificate], leaf: x509.Certificate) -> bool:
    for at, (above, below) in enumerate(itertools.pairwise((*way, leaf))):
        limits = above.extensions.get_extension_for_class(x509.BasicConstraints).value
        between = len(way) - 1 - at
        if above.subject != below.issuer or (limits.path_length is not None and limits.path_length < between):
            return False
        try:
            below.verify_directly_issued_by(above)
        except Exception:  # noqa: BLE001  after any failure, this one has not issued that one
            return False
    return True
