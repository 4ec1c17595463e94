"""Build the documentation site into ``src/pixconnect/site``, which the service serves at ``/docs`` (``make site``).

MkDocs Material renders the pages. Next to each is its Markdown, listed in ``llms.txt``, for programs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Any, Final

from scripts.site.pages import INDEX, assemble, list_operations
from scripts.write_pages import write_reference

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = ROOT / "src" / "pixconnect" / "site"
PORTUGUESE: Final = {
    "access": "acesso credenciais",
    "account": "conta",
    "balance": "saldo",
    "charge": "cobrança",
    "clock": "relógio",
    "due": "vencimento",
    "error": "erro",
    "event": "evento aviso",
    "fee": "tarifa",
    "holder": "titular",
    "institution": "instituição banco",
    "key": "chave",
    "limit": "limite",
    "payee": "recebedor",
    "payer": "pagador",
    "payment": "pagamento pagar",
    "receipt": "comprovante",
    "receive": "receber",
    "refund": "devolução devolver estorno reembolso",
    "return": "devolução devolver",
    "secret": "segredo senha",
    "signature": "assinatura",
    "signing": "assinatura",
    "statement": "extrato",
    "token": "credenciais",
    "transfer": "transferência enviar pagar",
    "webhook": "aviso",
}
"""Words in titles, with the Portuguese words that readers search for."""
_IN_PORTUGUESE: Final = "guides/inicio-rapido.html"
_UNSERVED: Final = ("404.html", "sitemap.xml*", "**/*.map", "assets/javascripts/lunr/**/*.js")
_SERVED_ANYWAY: Final = frozenset({"lunr.pt.min.js", "lunr.stemmer.support.min.js", "lunr.multi.min.js"})
"""The search's language files that the site needs."""
_BY_TITLE: Final = re.compile(r"(?:decisions|about)/(?!start)")
"""Pages for developers of the service: the search only finds their titles."""
_MENDED: Final = {
    "**/*.html": (
        b'data-md-component="search" role="dialog"',
        b'data-md-component="search" role="dialog" aria-label="Search"',
    ),
    "assets/javascripts/bundle.*.js": (b'("nav",{class:"md-code__nav"}', b'("div",{class:"md-code__nav"}'),
}
"""Changes to the theme: the search has a name for screen readers, and code blocks are no landmarks."""
_SOURCE_MAP: Final = re.compile(rb"\n?(?://|/\*)# sourceMappingURL=[^\n]*\n?")
_SUMMARY: Final = "> A self-hosted Pix service for account holders. The service has its OpenAPI document at `/openapi.json`."


def main() -> None:
    """Build the site elsewhere, and move it into place when it is complete."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--to", type=Path, default=TARGET)
    target = parser.parse_args().to.absolute()
    with tempfile.TemporaryDirectory(prefix="pixconnect-site-") as folder:
        build(ROOT, Path(folder))
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(Path(folder) / "site", target)


def build(root: Path, folder: Path) -> None:
    """Build ``folder/site`` from the assembled ``folder/pages``; a broken link ends the program."""
    generated, pages, site = folder / "generated", folder / "pages", folder / "site"
    asyncio.run(write_reference(generated / "docs" / "reference"))
    navigation = assemble((generated, root), pages)
    (pages / "assets").mkdir()
    shutil.copy(Path(__file__).with_name("site.css"), pages / "assets")
    make(root / "mkdocs.yml", pages, site, navigation)
    for file in [file for pattern in _UNSERVED for file in site.glob(pattern) if file.name not in _SERVED_ANYWAY]:
        file.unlink()
    for file in (*site.rglob("*.js"), *site.rglob("*.css")):
        file.write_bytes(_SOURCE_MAP.sub(b"", file.read_bytes()))
    for page in pages.rglob("*.md"):
        shutil.copyfile(page, site / page.relative_to(pages))
    index = (pages / INDEX).read_text(encoding="utf-8").partition("\n")[2]
    index += f"\n## Operations\n\n{list_operations(pages, '')}"
    (site / "llms.txt").write_text(f"# Pix Connect\n\n{_SUMMARY}\n{index}", encoding="utf-8")
    for pattern, (there, mended) in _MENDED.items():
        for file in site.glob(pattern):
            content = file.read_bytes()
            if content.count(there) != 1:
                sys.exit(f"{file.relative_to(site)}: the theme has changed: no single {there.decode()}")
            file.write_bytes(content.replace(there, mended))
    mend_search(site / "search" / "search_index.json")
    page = site / _IN_PORTUGUESE
    page.write_text(page.read_text(encoding="utf-8").replace('<html lang="en"', '<html lang="pt-BR"', 1), encoding="utf-8")


def make(config_file: Path, pages: Path, site: Path, navigation: list[Any]) -> None:
    """Run MkDocs; any warning ends the program."""
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    # Only installed for building the site.
    from mkdocs.commands.build import build as build_pages  # noqa: PLC0415
    from mkdocs.config import load_config  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    config = load_config(str(config_file), docs_dir=str(pages), site_dir=str(site), nav=navigation, strict=True, site_url="")
    build_pages(config)


def mend_search(file: Path) -> None:
    """Make the search find English title words by their Portuguese words, with and without accents."""
    index = json.loads(file.read_text(encoding="utf-8"))
    index["docs"] = [one for one in index["docs"] if not _BY_TITLE.match(one["location"]) or "#" not in one["location"]]
    for entry in index["docs"]:
        if _BY_TITLE.match(entry["location"]):
            entry["text"] = ""
            continue
        words = {word.removesuffix("s") for word in re.findall(r"[a-z]+", entry["title"].lower())}
        found = dict.fromkeys(" ".join(meant for word, meant in PORTUGUESE.items() if word in words).split())
        if found:
            # A tag would count more than a title, and be shown.
            entry["tags"] = [*found]
            entry["text"] += "".join(f" <p>{fold(word)}</p>" for word in found if fold(word) != word)
    file.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def fold(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each))


if __name__ == "__main__":
    main()
