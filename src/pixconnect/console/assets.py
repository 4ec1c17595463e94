"""The console's own files: style sheet, script, icon. Their addresses hold a hash, so browsers may keep them for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.responses import Response

_FOLDER: Final = Path(__file__).parent / "assets"
_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Assets:
    """All files, read when the process starts."""

    def __init__(self) -> None:
        self._answers: dict[str, Response] = {}
        self._addresses: dict[str, str] = {}
        for path in sorted(_FOLDER.iterdir()):
            if path.suffix not in _MEDIA_TYPES:
                continue
            content = path.read_bytes()
            name = f"{path.stem}.{hashlib.blake2b(content, digest_size=6).hexdigest()}{path.suffix}"
            self._addresses[path.name] = f"/assets/{name}"
            self._answers[name] = Response(
                content,
                media_type=_MEDIA_TYPES[path.suffix],
                headers={"cache-control": "public, max-age=31536000, immutable"},
            )

    def address(self, name: str) -> str:
        return self._addresses[name]

    def find(self, name: str) -> Response | None:
        return self._answers.get(name)
