"""The documentation site as static files: its addresses, its security headers, and the page without it."""

import base64
import gzip
import hashlib
from pathlib import Path

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.doors.api.site import Site
from pixconnect.platform.logging import AccessLog
from support.api import Api, build_small_site


def open_api(services: Services, folder: Path | None) -> Api:
    served = structs.replace(services, site=Site(folder))
    return Api(make_application(served, AccessLog(services.context.clock, wanted="off")))


@pytest.fixture
def built(services: Services, tmp_path: Path) -> Api:
    return open_api(services, build_small_site(tmp_path))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", "text/html"), ("guides/webhooks", "text/html"), ("guides/webhooks.html", "text/html"),
        ("guides/webhooks.md", "text/markdown"), ("assets/javascripts/bundle.js", "text/javascript"),
        ("assets/page.css", "text/css"), ("guides/a-picture.png", "image/png"), ("llms.txt", "text/plain"),
    ],
)  # fmt: skip
async def test_a_file_is_served_by_its_address_and_a_page_also_without_its_suffix(built: Api, path: str, kind: str) -> None:
    answer = await built.get(f"/docs/{path}", token=None)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)


@pytest.mark.parametrize(
    "path",
    [
        "none", "guides", "guides/", "/", "guides//webhooks", "..", "../site.py", "%2e%2e/secret.txt", "guides/..%2Fllms.txt",
        "secret.pem", "llms.txt/", "%ff", "x" * 5000,
    ],
)  # fmt: skip
async def test_a_name_is_looked_up_and_is_no_path(built: Api, tmp_path: Path, path: str) -> None:
    (tmp_path.parent / "secret.txt").write_text("of the machine")
    assert (await built.get(f"/docs/{path}", token=None)).status in {400, 404}


async def test_a_page_allows_its_own_scripts_and_nothing_of_another_host(built: Api) -> None:
    allowed = base64.b64encode(hashlib.sha256(b"let a = 1").digest()).decode()
    policy = (await built.get("/docs/guides/webhooks", token=None)).headers["content-security-policy"]
    assert policy == (
        "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
        f"img-src 'self' data:; script-src 'self' 'sha256-{allowed}'; style-src 'self'; worker-src 'self'"
    )
    script = (await built.get("/docs/assets/javascripts/bundle.js", token=None)).headers["content-security-policy"]
    assert script == policy.replace(f" 'sha256-{allowed}'", "")


async def test_a_service_without_a_built_site_names_what_builds_it(services: Services, tmp_path: Path) -> None:
    api = open_api(services, tmp_path / "nothing")
    answer = await api.get("/docs/", token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.content.decode().count("\n") == 1
    assert b"`make site`" in answer.content
    runbook = await api.get("/docs/runbooks/part-down", token=None)
    assert (runbook.status, runbook.body["error"]["message"]) == (404, answer.content.decode().strip())
    assert b'url=docs/"' in (await api.get("/docs", token=None)).content


async def test_a_service_that_serves_no_documentation_leads_to_the_openapi_document(services: Services) -> None:
    api = open_api(services, None)
    assert (await api.get("/docs/", token=None)).status == 404
    for path in ("/", "/docs"):
        assert b'url=openapi.json"' in (await api.get(path, token=None)).content
    assert (await api.get("/openapi.json", token=None)).status == 200


async def test_the_documentations_address_leads_to_its_folder(built: Api) -> None:
    for path in ("/", "/docs"):
        answer = await built.get(path, token=None)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b'url=docs/"' in answer.content
    for path in ("/v1/connect/charge/", "/v1/connect/ledger/balance/", "/openapi.json/"):
        assert (await built.get(path, token=None)).status == 404, path


@pytest.mark.parametrize(
    ("takes", "is_packed"),
    [
        ("gzip, deflate, br, zstd", True), ("br;q=1.0, gzip;q=0.8, *;q=0.1", True), ("x-gzip", True),
        ("gzip;q=0", False), ("gzip; q=0.000, identity", False), ("br", False), ("gzipped", False), (None, False),
    ],
)  # fmt: skip
async def test_pages_are_packed_for_a_caller_that_takes_gzip(built: Api, takes: str | None, *, is_packed: bool) -> None:
    for path in ("/docs/guides/webhooks", "/docs/guides/webhooks.md", "/openapi.json"):
        plain = await built.get(path, token=None)
        answer = await built.get(path, token=None, headers={} if takes is None else {"accept-encoding": takes})
        assert (answer.headers.get("content-encoding") == "gzip") is is_packed
        assert (gzip.decompress(answer.content) if is_packed else answer.content) == plain.content, path
