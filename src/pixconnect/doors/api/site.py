"""The documentation site, which ``make site`` builds, as static files.

Its files are listed once, when the process starts, so a name in a request is looked up and never becomes a path. Each is read,
packed and given its ``ETag`` at its first request (``document.py``).
"""

import base64
import hashlib
import re
from pathlib import Path
from typing import Final

from pixconnect.doors.api.document import KeptDocument

BUILT: Final = Path(__file__).parents[2] / "site"  # in wheels and images, and in a checkout after ``make site``
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""By a file's suffix; no other file is served."""
_PICTURES: Final = frozenset({".png"})  # packed already
_UNBUILT: Final = (
    "The documentation is not built here: run `make site` and restart the service. The interface is described at /openapi.json."
)
_POLICY: Final = (
    "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
    "img-src 'self' data:; script-src 'self'{hashes}; style-src 'self'; worker-src 'self'"
)
_INLINE_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


class Site:
    """The site's files by their addresses, of a page also without ``.html``.

    Args:
        folder: Where the site was built; ``None`` serves no site.
    """

    def __init__(self, folder: Path | None) -> None:
        self._files: dict[str, str] = {}
        self._kept: dict[str, KeptDocument] = {}
        self.entry = "openapi.json" if folder is None else "docs/"  # the target of the service's bare address
        self.why_absent = "page: there is no such page"
        if folder is None:
            return
        for file in folder.rglob("*.*"):
            if file.suffix in TYPES:
                address = file.relative_to(folder).as_posix()
                self._files |= {address: str(file), address.removesuffix(".html"): str(file)}
        if "index.html" in self._files:
            self._files[""] = self._files["index.html"]
        else:
            self._files[""] = _UNBUILT
            self._kept[_UNBUILT] = KeptDocument(f"{_UNBUILT}\n".encode(), TYPES[".txt"])
            self.why_absent = _UNBUILT

    @property
    def addresses(self) -> list[str]:
        """Return all addresses that it serves, below ``/docs/``."""
        return [*self._files]

    def find(self, address: str) -> KeptDocument | None:
        file = self._files.get(address)
        if file is None:
            return None
        if file not in self._kept:
            self._kept[file] = _read(Path(file))
        return self._kept[file]


def _read(file: Path) -> KeptDocument:
    content = file.read_bytes()
    # The few scripts within a page differ between folders, so each page permits its own.
    scripts = _INLINE_SCRIPT.findall(content) if file.suffix == ".html" else []
    digests = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts]
    policy = _POLICY.format(hashes="".join(f" 'sha256-{digest}'" for digest in digests))
    return KeptDocument(content, TYPES[file.suffix], policy.encode(), is_packed=file.suffix not in _PICTURES)
