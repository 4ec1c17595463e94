"""Addresses that a webhook must not reach, and ways to write them."""

import json
from ipaddress import IPv6Address, ip_address
from pathlib import Path

VECTORS = json.loads((Path(__file__).parents[1] / "tests" / "vectors" / "ssrf.json").read_text(encoding="utf-8"))


def spellings(text: str) -> list[str]:
    """Return the ways to write an address in a URL that some parser accepts."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        written = [f"[{address}]", f"[{address.exploded}]", f"[{address}%25eth0]", f"[{address}%eth0]"]
        if address.ipv4_mapped:
            written.append(f"[::ffff:{address.ipv4_mapped}]")
        return written
    number, parts = int(address), address.packed
    return [
        str(address),
        f"{address}.",
        str(number),
        hex(number),
        oct(number).replace("o", ""),
        ".".join(f"0{part:o}" for part in parts),
        ".".join(hex(part) for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        "".join("①②③④⑤⑥⑦⑧⑨"[int(c) - 1] if c in "123456789" else "⓪" if c == "0" else c for c in str(address)),
        str(address).replace(".", "。"),
        f"[::ffff:{address}]",
        f"[::ffff:{parts[0]:02x}{parts[1]:02x}:{parts[2]:02x}{parts[3]:02x}]",
        f"[64:ff9b::{address}]",
        f"[::{address}]",
        f"[2002:{parts[0]:02x}{parts[1]:02x}:{parts[2]:02x}{parts[3]:02x}::1]",
    ]
