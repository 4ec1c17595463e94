"""The documentation as one page: a book that is read without a script, and a tool with it.

Everything comes from this service: the page, one style sheet and one script. Navigation folds by ``details`` and, on a
telephone, opens as a popover; the language of samples is one choice of three that CSS reads. What needs a script is added by
it: search, copying, where one is, and requests that are sent from the page, which only a sandbox allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from pixconnect.api.docs import openapi
from pixconnect.api.docs.errors import render_errors, render_errors_of
from pixconnect.api.docs.examples import example_of_answer
from pixconnect.api.docs.fields import Fields
from pixconnect.api.docs.guides import prose, render_head, render_navigation, sample, write_json
from pixconnect.api.docs.records import SCHEMAS, Schema
from pixconnect.api.docs.samples import LANGUAGES, render_login, render_samples
from pixconnect.api.docs.webhooks import HEADER_PARAMETERS
from pixconnect.api.frame import envelope
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Nothing, Section

_META: Final = dict(request_id="...", timestamp="...", version=envelope.VERSION)


def render_docs(document: dict[str, Any], sections: Sequence[Section], *, is_sandbox: bool) -> str:
    """Write the page; the document must be the OpenAPI document of the same sections."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    base_url: str = document["servers"][0]["url"]
    token_url: str = document["components"]["securitySchemes"]["OAuth2"]["flows"]["clientCredentials"]["tokenUrl"]
    # Requests are sent from the page only where tokens come from its own address: it may connect to no other.
    can_try = is_sandbox and token_url.startswith(base_url + "/")
    fields = Fields(schemas)
    return "".join(
        [
            render_head("Pix Connect", "", " data-try" if can_try else ""),
            _render_navigation(document, sections, fields, schemas),
            "<main id=main>",
            _render_introduction(document, sections, base_url, token_url, is_sandbox=is_sandbox),
            *(_render_section(section, document, fields, base_url) for section in sections),
            _render_events(document, fields),
            fields.render_types(),
            render_errors(),
            "</main></html>",
        ]
    )


def _render_navigation(
    document: dict[str, Any], sections: Sequence[Section], fields: Fields, schemas: dict[str, Schema]
) -> str:
    groups = [
        _render_group(
            section.title,
            "".join(
                f'<li><a href=#{row.id}><span class="mark {row.method}">{row.method}</span> '
                f"<span>{prose(openapi.summarize(row)[0])}</span></a>"
                for row in section.operations
            ),
            # The first is what most come for.
            is_open=section is sections[0],
        )
        for section in sections
    ]
    events = "".join(f"<li><a href=#event-{name}><span>{name}</span></a>" for name in document["webhooks"])
    types = "".join(f"<li><a href=#type-{name}><span>{name}</span></a>" for name in schemas if fields.is_shown(name))
    return (
        '<nav id=nav popover aria-label="Contents"><ul><li><a href=#start>Start</a><li><a href=#token>Get a token</a>'
        "<li><a href=#conventions>What holds everywhere</a></ul>"
        f"{''.join(groups)}{_render_group('Events', events)}{_render_group('Types', types)}"
        f"<ul><li><a href=#errors>Errors</a></ul>{render_navigation('')}</nav>"
    )


def _render_group(title: str, items: str, *, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary><ul>{items}</ul></details>"


def _render_introduction(
    document: dict[str, Any], sections: Sequence[Section], base_url: str, token_url: str, *, is_sandbox: bool
) -> str:
    choices = "".join(
        f"<label><input type=radio name=language id=in-{name}{' checked' if name == 'curl' else ''}> {title}</label>"
        for name, title in LANGUAGES
    )
    where = "The service's operator gives you a <code>client_id</code> and a <code>client_secret</code>."
    if is_sandbox:
        where = (
            "The sandbox comes with a demonstration account: its <code>client_id</code> and <code>client_secret</code> are "
            "in the file <code>sandbox.json</code> in the service's home, and the address that <code>make run</code> prints "
            "for this page brings them with it. They stay in this tab."
        )
    paragraphs = document["info"]["description"].strip().split("\n\n")
    return (
        f"<section id=start><article><div><h1>Pix Connect</h1><p class=lead>{prose(paragraphs[0])}</p>"
        f"{_render_steps(document, sections, base_url, token_url)}</div>"
        f"<div class=aside><h2 class=small>Address</h2>{sample(base_url, 'address')}"
        f"<h2 class=small>Every answer</h2>{sample(write_json(dict(success=True, data={}, meta=_META)), 'json')}"
        f"<fieldset class=choice><legend>Samples in</legend>{choices}</fieldset></div></article></section>"
        f"<section id=token><article><div><h2>Get a token</h2><p>{where}</p><p>A token is good for five minutes unless set "
        "otherwise: get another one before it ends, or when you are answered 401. OAuth 2.0 libraries do that by "
        "themselves.</p><div id=credentials></div></div>"
        f"<div class=aside>{render_login(base_url, token_url)}</div></article></section>"
        "<section id=conventions><article><div><h2>What holds everywhere</h2>"
        "<p>JSON over HTTP. Every answer is an envelope: <code>success</code>, then <code>data</code> or <code>error</code>, "
        "then <code>meta</code>; lists add <code>pagination</code>. Send a unique <code>external_id</code> with everything "
        "that you create: then a request may be repeated. Keep <code>meta.request_id</code> for questions.</p>"
        f"<p>{prose(' '.join(paragraphs[1:]))}</p>"
        "<p>Programs written for a Brazilian bank find the central bank's Pix API below <code>/pix/v2</code> and "
        "<code>/v2</code>: <a href=docs/reference/pix-api>what is spoken of it</a>, and its "
        "<a href=pix/openapi.json>OpenAPI document</a>.</p></div></article></section>"
    )


def _render_steps(document: dict[str, Any], sections: Sequence[Section], base_url: str, token_url: str) -> str:
    """From nothing to a charge that is paid; where nobody plays the payer, to one that can be."""
    rows = {row.id: row for section in sections for row in section.operations}
    schemas: dict[str, Schema] = document["components"]["schemas"]
    steps = [
        "<h2 class=small><a href=#token>1. Get a token</a></h2><p>Every request carries it.</p>"
        f"{render_login(base_url, token_url)}",
        "<h2 class=small><a href=#create_charge>2. Ask to be paid</a></h2><p>The answer has <code>emvqrcps</code>: the text "
        f"of the QR code.</p>{render_samples(rows['create_charge'], base_url, schemas)}",
    ]
    told = (
        "You are told by the event <a href=#event-qrcode.approved><code>qrcode.approved</code></a>: "
        "<a href=docs/guides/first-webhook>receive your first webhook</a>."
    )
    if "sandbox_pay" in rows:
        paying = render_samples(rows["sandbox_pay"], base_url, schemas)
        steps.append(
            "<h2 class=small><a href=#sandbox_pay>3. Have it paid</a></h2><p>The sandbox plays the payer. "
            f"{told}</p>{paying}"
        )
    else:
        steps.append(f"<h2 class=small><a href=#events>3. Be paid</a></h2><p>{told}</p>")
    return "".join(steps)


def _render_section(section: Section, document: dict[str, Any], fields: Fields, base_url: str) -> str:
    schemas: dict[str, Schema] = document["components"]["schemas"]
    articles = "".join(
        _render_operation(row, document["paths"][row.path][row.method.lower()], fields, base_url, schemas)
        for row in section.operations
    )
    return (
        f"<section id=section-{section.title.lower()}><h2>{escape(section.title)}</h2><p>{prose(section.text)}</p>"
        f"{articles}</section>"
    )


def _render_operation(
    row: AnyOperation, described: Schema, fields: Fields, base_url: str, schemas: dict[str, Schema]
) -> str:
    summary, description = openapi.summarize(row)
    needs = "Needs no token."
    if row.scope is not None:
        needs = "Needs a token." if row.scope == "any" else f"Needs the scope <code>{row.scope}</code>."
    marks = f"data-method={row.method} data-path={row.path}{' data-public' if row.scope is None else ''}"
    # Forms are for logging in, which the page does by itself.
    marks += "" if row.body_form == "json" else " data-form"
    parts = [
        f"<article id={row.id} {marks}><div><h3>{prose(summary)}</h3>",
        f'<p class=route><span class="mark {row.method}">{row.method}</span> <code>{escape(row.path)}</code></p>',
        f"<p>{prose(description)}</p>" if description else "",
        f"<p class=note>{needs}</p>",
        fields.render_parameters(row),
    ]
    if row.body is not Nothing:
        parts.append(fields.render_record(row.body.__name__, "Body", is_open=True))
    if row.answer is not Document:
        listed = "a list of " if row.item else ""
        title = f"Answer: {listed}<code>{row.record.__name__}</code>"
        parts.append(fields.render_record(row.record.__name__, title, is_open=False))
    parts += [
        render_errors_of(row, described["responses"]),
        f"</div><div class=aside>{render_samples(row, base_url, schemas)}",
    ]
    # A list is shown with one of its items.
    if row.answer is not Document:
        parts.append(f"<h4>Answer</h4>{sample(write_json(example_of_answer(row, schemas)), 'json')}")
    return "".join([*parts, "</div></article>"])


def _render_events(document: dict[str, Any], fields: Fields) -> str:
    headers = "".join(
        f"<li><code class=name>{part['name']}</code><p>{prose(part['description'])}</p>"
        for part in HEADER_PARAMETERS.values()
    )
    articles = "".join(_render_event(name, item["post"], fields) for name, item in document["webhooks"].items())
    return (
        "<section id=events><h2>Events</h2><p>What is posted to your webhook endpoints: check the signature over the raw "
        "body, drop an <code>id</code> that you have seen, answer any 2xx within 15 seconds, and do the work afterwards. "
        'The guide <a href="docs/guides/webhooks">Receive webhooks</a> says the rest.</p>'
        f"<h3 class=small>Headers</h3><ul class=fields>{headers}</ul>{articles}</section>"
    )


def _render_event(name: str, described: Schema, fields: Fields) -> str:
    content = described["requestBody"]["content"]["application/json"]
    record = content["schema"]["$ref"].removeprefix(SCHEMAS)
    listed = fields.render_record(record, f"Body: <code>{record}</code>", is_open=False)
    return (
        f"<article id=event-{name}><div><h3>{name}</h3><p>{prose(described['description'])}</p>{listed}</div>"
        f"<div class=aside>{sample(write_json(content['example']), 'json')}</div></article>"
    )
