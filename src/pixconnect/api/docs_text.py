"""Small parts of HTML that all of the documentation page is made of."""

from __future__ import annotations

import json
import re
from html import escape


def prose(text: str) -> str:
    """A sentence of a docstring, which marks code with one or two backquotes."""
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text, quote=False))


def sample(text: str, language: str) -> str:
    """A block of code, to which a script adds a button that copies it."""
    return f'<div class="sample {language}"><pre tabindex=0><code>{escape(text, quote=False)}</code></pre></div>'


def write_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
