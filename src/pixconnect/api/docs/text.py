"""Small parts of HTML that all of the documentation page is made of."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Final

_HEAD: Final = """<!doctype html><html lang={language}{marks}><meta charset=utf-8>
<meta name=viewport content="width=device-width,initial-scale=1"><meta name=color-scheme content="light dark">
<title>{title}</title><link rel=icon href=data:,>
<link rel=stylesheet href="{root}docs/page.css"><script src="{root}docs/page.js"></script>
<a class=skip href=#main>To the content</a>
<header><button class=menu popovertarget=nav aria-label=Contents>☰</button><a class=brand href="{root}docs">Pix Connect</a>
<button id=search hidden>Search <kbd>Ctrl K</kbd></button>
<span class=links><a href="{root}docs/README">Guides</a><a href="{root}openapi.json">OpenAPI</a></span>
<button id=theme hidden>Theme</button></header>
"""

TABLE: Final = "<div class=wide tabindex=0 role=group aria-label=Table>"
"""Around a table, which may be wider than the window: so that it can be moved without a pointer."""


def render_head(title: str, root: str, marks: str = "", *, language: str = "en") -> str:
    """What every page begins with; ``root`` leads from it to the service's address."""
    return _HEAD.format(title=escape(title), root=root, marks=marks, language=language)


def prose(text: str) -> str:
    """A sentence of a docstring, which marks code with one or two backquotes."""
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text, quote=False))


def sample(text: str, language: str) -> str:
    """A block of code, to which a script adds a button that copies it."""
    return f'<div class="sample {language}"><pre tabindex=0><code>{escape(text, quote=False)}</code></pre></div>'


def write_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
