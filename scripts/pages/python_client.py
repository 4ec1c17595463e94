"""The Python client's records, enumerations and requests, as the OpenAPI document has them; people write their texts.

A new field has the document's text until a person writes another one, and a new field of a request becomes a parameter of the
method that creates something. A person begins a new class with its docstring, and exports it.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pixconnect.kernel.rules.event import EVENT_FACTS
from scripts.pages.schema import ROOT
from scripts.pages.typescript import DOCUMENT, find_body, list_operations

FOLDER: Final = ROOT / "clients" / "python" / "src" / "pixconnect_client"
SHORTER: Final = {"HolderBalance": "Balance", "WebhookEndpoint": "Endpoint", "WebhookDelivery": "Delivery"}
"""Records with longer names in the document, to distinguish them there."""
_SCHEMAS: Final = {SHORTER.get(name, name): schema for name, schema in DOCUMENT["components"]["schemas"].items()}
_RECORDS: Final = ("records", "sandbox_records", "events", "feed", "lists")
_TYPES: Final = dict(string="str", integer="int", number="float", boolean="bool", object="msgspec.Raw")
_NOISE: Final = re.compile(r" (RFC 3339, UTC, with microseconds|Below 2\^53)\.|, without a fraction")
_IMPORT: Final = re.compile(r"from pixconnect_client\.enums import (\w[\w, ]*|\([\w,\s]+\))\n")
_Words = Mapping[str, Iterable[str]]


def write_files() -> dict[Path, str]:
    files = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in ("enums", *_RECORDS, "_resources")}
    files["enums"] = _write_enumerations(files["enums"])
    words = {one.name: list(_find_members(one)) for one in _list_classes(files["enums"])}
    for name in _RECORDS:
        files[name] = _write_records(files[name], words)
    files["_resources"] = _write_parameters(files["_resources"], words)
    return {FOLDER / f"{name}.py": _import(text, words) for name, text in files.items()}


def _write_enumerations(text: str) -> str:
    """Each has the words of that enumeration in the document which is most like it."""
    known = [list(EVENT_FACTS), *_list_enumerations(DOCUMENT)]
    lines = text.splitlines()
    for one in reversed(_list_classes(text)):
        own = _find_members(one)
        likeness = {len(own.keys() & words) / len(own.keys() | words): words for words in known}
        best = likeness[max(likeness)]
        added = [f'    {re.sub("[^A-Za-z0-9]", "_", word).upper()} = "{word}"' for word in best if word not in own]
        lines[one.end_lineno : one.end_lineno] = added
        for word in sorted(own.keys() - best, key=own.__getitem__, reverse=True):
            del lines[own[word] - 1]
    return "\n".join(lines) + "\n"


def _write_records(text: str, words: _Words) -> str:
    lines = text.splitlines()
    for one in reversed(_list_classes(text)):
        if "properties" in _SCHEMAS.get(one.name, {}):
            fields = [field for field in one.body if isinstance(field, ast.AnnAssign)]
            starts = [*(field.lineno - 1 for field in fields), one.end_lineno]
            texts = {
                ast.unparse(field.target): lines[field.end_lineno : end] for field, end in zip(fields, starts[1:], strict=True)
            }
            lines[starts[0] : one.end_lineno] = _write_fields(_SCHEMAS[one.name], words, texts)
    return "\n".join(lines) + "\n"


def _write_fields(schema: Mapping[str, Any], words: _Words, texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, field in schema["properties"].items():
        yield f"    {name}: {_type(field, words)}{'' if name in schema.get('required', ()) else ' | None = None'}"
        yield from texts[name] if name in texts else _wrap(f'"""{_describe(field)}"""', "    ")


def _write_parameters(text: str, words: _Words) -> str:
    methods = re.split(r"^(?=    @)", text, flags=re.MULTILINE)
    for verb, path, operation in list_operations():
        schema = find_body(operation)
        for number, method in enumerate(methods):
            # A method that creates something ends in a ``Call``, or in a function that makes one of all its fields.
            if re.search(rf'(method="{verb}",|_start_\w+\()\n            path="{path}",', method):
                lacking = [name for name in schema.get("properties", {}) if f" {name}={name}," not in method]
                for name in lacking:
                    methods[number] = _add_parameter(methods[number], name, schema["properties"][name], words)
    return "".join(methods)


def _add_parameter(method: str, name: str, field: Mapping[str, Any], words: _Words) -> str:
    kind = _type(field, words)
    kind += " | str" if kind in words else ""
    about = "\n".join(_wrap(f"{name}: {_describe(field)}", " " * 12, " " * 16))
    for place, added in {
        "        external_id: ": f"        {name}: {kind} | None = None,",
        "            external_id: ": about,
    }.items():
        method = method.replace(f"\n{place}", f"\n{added}\n{place}", 1)
    return re.sub(r"^( +)external_id=", rf"\1{name}={name},\n\g<0>", method, count=1, flags=re.MULTILINE)


def _import(text: str, words: _Words) -> str:
    """Import the enumerations that it uses."""
    found = _IMPORT.search(text)
    if found is None:
        return text
    used = {name for name in words if re.search(rf"(?<!`)\b{name}\b", text.replace(found[0], ""))}
    if used == set(re.findall(r"\w+", found[1])):
        return text
    names = "".join(f"    {name},\n" for name in sorted(used))
    return text.replace(found[0], f"from pixconnect_client.enums import (\n{names})\n")


def _list_classes(text: str) -> list[ast.ClassDef]:
    return [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef)]


def _find_members(one: ast.ClassDef) -> dict[str, int]:
    """Each word of an enumeration with its line."""
    return {ast.literal_eval(member.value): member.lineno for member in one.body if isinstance(member, ast.Assign)}


def _list_enumerations(node: object) -> Iterator[list[str]]:
    if isinstance(node, dict):
        members = cast(dict[str, Any], node)
        if isinstance(members.get("enum"), list):
            yield members["enum"]
        node = list(members.values())
    if isinstance(node, list):
        for inner in cast(list[object], node):
            yield from _list_enumerations(inner)


def _type(schema: Mapping[str, Any], words: _Words) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        name = SHORTER.get(name, name)
        return _type(_SCHEMAS[name], words) if "enum" in _SCHEMAS[name] else name
    if (own := set(schema.get("enum", ()))) and (len(own) > 1 or own <= EVENT_FACTS.keys()):
        # Some fields allow only a part of an enumeration. A constant is text.
        return min((name for name in words if own <= set(words[name])), key=lambda name: len(list(words[name])), default="str")
    match schema["type"], schema.get("format"):
        case "array", _:
            return f"list[{_type(schema['items'], words)}]"
        case "object", _ if isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {_type(schema['additionalProperties'], words)}]"
        case "string", "date-time" | "date" as form:
            return form.replace("-", "")
        case kind, _:
            return _TYPES[kind]


def _describe(schema: Mapping[str, Any]) -> str:
    return _NOISE.sub("", schema["description"]).replace("`", "``")


def _wrap(text: str, indent: str, more: str | None = None) -> list[str]:
    return textwrap.wrap(text, 128, initial_indent=indent, subsequent_indent=indent if more is None else more)
