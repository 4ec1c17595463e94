"""Allowed targets of webhooks: every address of the vectors in every spelling, and every rule on URLs."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from pixconnect.platform.base import address_rules
from support.addresses import VECTORS, spellings
from support.calls import CallCounter


@pytest.mark.parametrize("text", VECTORS["must_deny"])
def test_a_forbidden_address_is_forbidden(text: str) -> None:
    assert not address_rules.is_public(ip_address(text))


@pytest.mark.parametrize("text", VECTORS["must_allow"])
def test_a_public_address_is_allowed(text: str) -> None:
    assert address_rules.is_public(ip_address(text))


@pytest.mark.parametrize("text", VECTORS["must_deny"])
def test_a_forbidden_address_is_refused_in_every_spelling(text: str) -> None:
    for host in spellings(text):
        with pytest.raises(address_rules.TargetRefused):
            address_rules.parse_target(f"https://{host}/hook", allows_loopback=False)


@pytest.mark.parametrize("text", VECTORS["must_deny"])
def test_in_the_sandbox_only_loopback_may_be_reached_of_what_is_forbidden(text: str) -> None:
    for host in spellings(text):
        try:
            target = address_rules.parse_target(f"https://{host}/hook", allows_loopback=True)
        except address_rules.TargetRefused:
            continue
        assert target.address is not None
        mapped = target.address.ipv4_mapped if isinstance(target.address, IPv6Address) else None
        assert (mapped or target.address).is_loopback, host


@pytest.mark.parametrize("host", VECTORS["legacy_host_spellings_must_deny"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_spelling_of_loopback_is_refused(host: str, scheme: str) -> None:
    with pytest.raises(address_rules.TargetRefused):
        address_rules.parse_target(f"{scheme}://{host}/hook", allows_loopback=False)


@pytest.mark.parametrize("cidr", VECTORS["deny_ipv4_cidrs"])
def test_a_forbidden_range_is_forbidden_from_end_to_end(cidr: str) -> None:
    first, _, bits = cidr.partition("/")
    last = int(IPv4Address(first)) + (1 << (32 - int(bits))) - 1
    assert not address_rules.is_public(IPv4Address(first))
    assert not address_rules.is_public(IPv4Address(last))


@pytest.mark.parametrize("cidr", VECTORS["deny_ipv6_cidrs_inside_2000_3"])
def test_a_forbidden_ipv6_range_is_forbidden_from_end_to_end(cidr: str) -> None:
    first, _, bits = cidr.partition("/")
    last = int(IPv6Address(first)) + (1 << (128 - int(bits))) - 1
    assert not address_rules.is_public(IPv6Address(first))
    assert not address_rules.is_public(IPv6Address(last))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "must be an https URL"),
        ("shop.example/hook", "must be an https URL"),
        ("ftp://shop.example/", "must be an https URL"),
        ("http://shop.example/", "must be an https URL"),
        ("https:///hook", "has a host that cannot be read"),
        ("https://shop.example/#part", "must not have a fragment"),
        ("https://shop.example/#", "must not have a fragment"),
        ("https://me@shop.example/", "must not have user info"),
        ("https://me:secret@shop.example/", "must not have user info"),
        ("https://shop.example:80/", "must use port 443 or one of 1024 to 65535"),
        ("https://shop.example:0/", "must use port 443 or one of 1024 to 65535"),
        ("https://shop.example:1023/", "must use port 443 or one of 1024 to 65535"),
        ("https://shop.example:65536/", "must use port 443 or one of 1024 to 65535"),
        ("https://shop.example:999999/", "has no host and port that can be read"),
        ("https://shop.example:x/", "has no host and port that can be read"),
        ("https://shop/", "must have a host of more than one label"),
        ("https://shop./", "must have a host of more than one label"),
        ("https://metadata.google.internal/", "must not have a host of a private domain"),
        ("https://printer.local/", "must not have a host of a private domain"),
        ("https://a.localhost/", "must not have a host of a private domain"),
        ("https://PRINTER.LOCAL./", "must not have a host of a private domain"),
        ("https://shop..example/", "has a host that cannot be read"),
        ("https://-shop.example/", "has a host that cannot be read"),
        ("https://shop.exam ple/", "contains a character that no URL may contain"),
        ("https://shop.example/\x00", "contains a character that no URL may contain"),
        ("https://shop.example\\@10.0.0.1/", "contains a character that no URL may contain"),
        ("https://shop.example/\r\nHost: a", "contains a character that no URL may contain"),
        ("https://[::1/", "has no host and port that can be read"),
        ("https://[10.0.0.1]/", "has an IPv6 address that cannot be read"),
        ("https://1.2.3.4.5/", "must have its IPv4 address written as four decimal numbers"),
        ("https://shop.example/" + "a" * 2048, "is longer than 2048 characters"),
        ("https://" + "a" * 64 + ".example/", "has a host that cannot be read"),
        ("https://127.0.0.1/", "leads to 127.0.0.1, which is not a public address"),
        ("https://10.0.0.1/", "leads to 10.0.0.1, which is not a public address"),
    ],
)
def test_a_url_is_refused_with_the_rule_that_it_breaks(url: str, reason: str) -> None:
    with pytest.raises(address_rules.TargetRefused) as refused:
        address_rules.parse_target(url, allows_loopback=False)
    assert refused.value.reason == reason


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://localhost/", "http://10.0.0.1:3000/"])
def test_whoever_may_listen_on_this_machine_is_told_how(url: str) -> None:
    with pytest.raises(address_rules.TargetRefused) as refused:
        address_rules.parse_target(url, allows_loopback=True)
    assert refused.value.reason == "must be an https URL, or http://localhost:3000/ and its like"


def count_calls(url: str) -> int:
    with CallCounter() as counter, pytest.raises(address_rules.TargetRefused, match="has a host that cannot be read"):
        address_rules.parse_target(url, allows_loopback=False)
    return counter.count


@pytest.mark.parametrize(
    "host",
    ["\ufdfa" * 2000, "\ufdfa" * 253, "\u0131\u0307" * 1000, ("\u00e9" * 20 + ".") * 95],
    ids=["each is 18", "each is 18, of a usual length", "none is a label", "many labels"],
)
def test_a_host_of_characters_that_are_dear_to_encode_costs_little_more_than_a_usual_one(host: str) -> None:
    # It is read, and refused for its last label.
    usual = ("\u00e9" * 20 + ".") * 11 + "-a"
    assert count_calls(f"https://{host}/") <= 3 * count_calls(f"https://{usual}/")


def test_a_host_that_is_shorter_once_it_is_folded_is_not_cut() -> None:
    with pytest.raises(address_rules.TargetRefused, match="has a host that cannot be read"):
        address_rules.parse_target("https://" + ("e\u0301" * 20 + ".") * 12 + "example/", allows_loopback=False)


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://shop.example", "shop.example", "/"),
        ("https://shop.example?a=1", "shop.example", "/?a=1"),
        ("HTTPS://Shop.Example./Hook", "shop.example", "/Hook"),
        ("https://shop.example:443/", "shop.example", "/"),
        ("https://shop.example:8443/a/b?c=d&e=%2F", "shop.example:8443", "/a/b?c=d&e=%2F"),
        ("https://padaria-são-joão.example/olá", "xn--padaria-so-joo-yhbe.example", "/ol%C3%A1"),
        ("https://93.184.216.34/", "93.184.216.34", "/"),
        ("https://[2606:4700:4700::1111]:8443/", "[2606:4700:4700::1111]:8443", "/"),
    ],
)
def test_a_url_that_may_be_tried_is_taken_apart(url: str, authority: str, path: str) -> None:
    target = address_rules.parse_target(url, allows_loopback=False)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize("url", ["http://127.0.0.1:80/", "https://127.9.9.9:22/", "http://localhost:9/", "http://[::1]:1/"])
def test_loopback_may_be_reached_in_the_sandbox_on_any_port(url: str) -> None:
    assert address_rules.parse_target(url, allows_loopback=True).is_loopback_allowed
    with pytest.raises(address_rules.TargetRefused):
        address_rules.parse_target(url, allows_loopback=False)


@pytest.mark.parametrize("url", ["http://127.1/", "http://2130706433/", "http://shop.example/", "http://10.0.0.1/"])
def test_the_sandbox_allows_nothing_else(url: str) -> None:
    with pytest.raises(address_rules.TargetRefused):
        address_rules.parse_target(url, allows_loopback=True)


@pytest.mark.parametrize("is_sandbox", [True, False])
@pytest.mark.parametrize(
    "answers", [[], ["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["10.0.0.1", "93.184.216.34"], ["::1"], ["fe80::1%eth0"]]
)
def test_a_name_is_refused_if_any_of_its_addresses_is(answers: list[str], is_sandbox: bool) -> None:
    target = address_rules.parse_target("https://shop.example/", allows_loopback=is_sandbox)
    with pytest.raises(address_rules.TargetRefused):
        address_rules.check_addresses(target, answers)


def test_localhost_must_lead_to_loopback_alone() -> None:
    target = address_rules.parse_target("http://localhost:8000/", allows_loopback=True)
    assert [str(address) for address in address_rules.check_addresses(target, ["::1", "127.0.0.1"])] == ["::1", "127.0.0.1"]
    with pytest.raises(address_rules.TargetRefused):
        address_rules.check_addresses(target, ["127.0.0.1", "93.184.216.34"])


@pytest.mark.parametrize("text", ["168.63.129.16", "2620:4f:8000::1", "2620:4f:8000:ffff::1", "::ffff:168.63.129.16"])
def test_what_only_looks_public_is_forbidden(text: str) -> None:
    assert not address_rules.is_public(ip_address(text))


@pytest.mark.parametrize("text", ["168.63.129.15", "168.63.129.17", "2620:4f:7fff::1", "2620:4f:8001::1"])
def test_what_is_beside_it_is_public(text: str) -> None:
    assert address_rules.is_public(ip_address(text))


@pytest.mark.parametrize("prefix", ["2606:4700::", "2606:4700:1:2:"])
@pytest.mark.parametrize("name", ["0:5efe", "200:5efe"])
def test_the_end_of_a_tunnel_is_judged_by_the_address_that_it_carries_too(prefix: str, name: str) -> None:
    for carried, is_allowed in (("10.0.0.1", False), ("127.0.0.1", False), ("169.254.169.254", False), ("8.8.8.8", True)):
        assert address_rules.is_public(ip_address(f"{prefix}{name}:{carried}")) == is_allowed, carried
    # A public one makes no public network of a private one; and this is no tunnel's end.
    assert not address_rules.is_public(ip_address(f"fd00::{name}:8.8.8.8"))
    assert address_rules.is_public(ip_address(f"{prefix}100:5efe:10.0.0.1"))


OWN_NETWORKS = (ip_network("198.41.0.0/24"), ip_network("2606:4700:1::/48"))


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("198.41.0.4", False), ("::ffff:198.41.0.4", False), ("64:ff9b::c629:4", False), ("2606:4700:1::5", False),
        ("2606:4700:2::5efe:c629:4", False), ("198.41.1.4", True), ("2606:4700:2::5", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_written", [False, True])
def test_networks_that_the_operator_names_are_forbidden_too(address: str, is_allowed: bool, is_written: bool) -> None:
    host = f"[{address}]" if ":" in address else address
    target = address_rules.parse_target(f"https://{host if is_written else 'shop.example'}/", allows_loopback=True)
    found = ["93.184.216.34", address]
    if is_allowed:
        assert len(address_rules.check_addresses(target, found, OWN_NETWORKS)) == 2
    else:
        with pytest.raises(address_rules.TargetRefused, match="which this service may not reach"):
            address_rules.check_addresses(target, found, OWN_NETWORKS)


def test_the_operator_can_forbid_loopback_in_the_sandbox_too() -> None:
    target = address_rules.parse_target("http://localhost:8000/", allows_loopback=True)
    with pytest.raises(address_rules.TargetRefused, match="which this service may not reach"):
        address_rules.check_addresses(target, ["127.0.0.1"], [ip_network("127.0.0.0/8")])


NAMED = address_rules.parse_named_hosts("web, host.docker.internal,192.168.0.0/16, fd00::1")


@pytest.mark.parametrize(
    "url",
    [
        "http://web:3000/hook", "https://WEB/", "http://host.docker.internal:80/", "http://192.168.7.9/",
        "http://[fd00::1]/",
    ],
)  # fmt: skip
def test_a_host_that_the_operator_named_may_be_reached_wherever_it_is(url: str) -> None:
    target = address_rules.parse_target(url, allows_loopback=False, named=NAMED)
    assert target.is_named
    assert address_rules.check_addresses(target, ["172.17.0.1"]) == ["172.17.0.1"]
    with pytest.raises(address_rules.TargetRefused, match="may not reach"):
        address_rules.check_addresses(target, ["172.17.0.1"], [ip_network("172.16.0.0/12")])


@pytest.mark.parametrize(
    "url",
    [
        "http://db:3000/", "http://web.example/", "http://10.0.0.1/", "https://xweb/", "http://127.0.0.1/",
        "http://web@db/",
    ],
)  # fmt: skip
def test_no_other_host_is_named_by_it(url: str) -> None:
    with pytest.raises(address_rules.TargetRefused):
        address_rules.parse_target(url, allows_loopback=False, named=NAMED)


def test_a_public_name_that_leads_into_a_named_network_is_refused() -> None:
    target = address_rules.parse_target("https://shop.example/", allows_loopback=False, named=NAMED)
    with pytest.raises(address_rules.NotPublic):
        address_rules.check_addresses(target, ["192.168.7.9"])


@pytest.mark.parametrize("text", ["web:3000", "http://web", "192.168.0.0/33", "10.0.0", "a b"])
def test_what_is_neither_a_name_nor_a_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a host's name"):
        address_rules.parse_named_hosts(text)
