"""The addresses of three machines: on loopback, or on virtual cables that can be cut, if permitted."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from msgspec import Struct

NAMES: Final = ("one", "two", "three")
GUIDE: Final = "127.0.27"  # the network of `make ha`, whose addresses are in the guide


class Network(Struct, frozen=True, kw_only=True):
    """The addresses of machines and their proxy; ``cables`` are the host's ends of the machines' cables, none on loopback."""

    prefix: str
    cables: dict[str, str] = {}

    def address_of(self, name: str) -> str:
        return f"{self.prefix}.{NAMES.index(name) + 1}"

    @property
    def proxy_address(self) -> str:
        return f"{self.prefix}.10"

    def enter(self, name: str) -> list[str]:
        """The words before a command that runs on this machine."""
        return ["ip", "netns", "exec", self.cables[name]] if self.cables else []

    def pull(self, name: str) -> None:
        """Cut a machine off: its packets are lost silently in both directions."""
        _ip("link", "set", self.cables[name], "down")

    def plug(self, name: str) -> None:
        _ip("link", "set", self.cables[name], "up")


def may_lay_cables() -> bool:
    """Whether this process may create network namespaces: root on Linux, unless restricted."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def lay_cables(number: int) -> Iterator[Network]:
    """A separate network of three machines with a number from 1 to 250; its proxy has the host's address."""
    # 198.18.0.0/15 is reserved for network tests.
    network = Network(prefix=f"198.18.{number}", cables={name: f"pxha{number}{name}" for name in NAMES})
    bridge = f"pxha{number}"
    with ExitStack() as laid:
        _ip("link", "add", bridge, "type", "bridge")
        laid.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{network.proxy_address}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for name, cable in network.cables.items():
            # Its other end is removed with it.
            _ip("netns", "add", cable)
            laid.callback(_ip, "netns", "del", cable)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", cable)
            _ip("link", "set", cable, "master", bridge)
            _ip("-n", cable, "addr", "add", f"{network.address_of(name)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", cable, "link", "set", device, "up")
            _ip("link", "set", cable, "up")
        yield network


def _ip(*words: str) -> None:
    done: subprocess.CompletedProcess[str] = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def choose_loopback() -> Network:
    """A network of loopback addresses that no other process is likely to use."""
    number = os.getpid()
    return Network(prefix=f"127.{1 + number // 250 % 250}.{1 + number % 250}")
