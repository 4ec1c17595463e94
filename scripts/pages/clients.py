"""``docs/reference/clients.md``: the methods of both clients and their operations."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final, cast

from pixconnect_client import Client, _resources, _sandbox
from pixconnect_client._call import Call
from pixconnect_client._operation import Following, Listing, Operation, Resource
from pixconnect_client.download import ask_for_statement
from scripts.pages import typescript

_CLASS: Final = re.compile(r"^export class (\w+) extends Resource \{$")
_METHOD: Final = re.compile(r"^  (?:async )?((\w+)\(.*) \{$")
_Method = Operation[..., Any] | Listing[..., Any] | Following[...]
_OWN: Final = ("Account",)  # groups whose operations are methods of the client itself
_HEADING: Final = "| Operation | Python | TypeScript | Scope | Again |"
_LINE_MAX: Final = 100


def write_page() -> str:
    """``docs/reference/clients.md``."""
    lines = [
        "# Methods of the clients",
        "",
        "Methods of the [Python client](../guides/python-client.md) and the",
        "[TypeScript client](../guides/typescript-client.md), with their [operations](api.md). Written by `make docs` from",
        "both clients and the OpenAPI document.",
        "",
        "*Again* is the behaviour without an answer, and on 429, 503 and `OUTCOME_UNKNOWN`: a *read* is repeated; a *named*",
        "request is repeated under its `external_id`, which the client makes before the first try if you give none; any other",
        "is sent *once*. A list is fetched page by page. `*` stands for any token of the holder, with any scopes.",
        "",
    ]
    rows = list(_list_rows())
    signatures = dict(python=list(_list_python_signatures()), typescript=[said for _, _, said in _read_typescript()])
    for group in dict.fromkeys(of for of, _ in rows):
        lines += [f"## {group.capitalize()}", "", _HEADING, "|---|---|---|---|---|"]
        lines += [row for of, row in rows if of == group]
        for language, said in signatures.items():
            lines += ["", f"```{language}", *(_wrap(f"client.{one}") for one in said if _find_group(one) == group), "```"]
        lines.append("")
    lines += ["## Without a method", "", "| Operation | Why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in typescript.WITHOUT_METHOD.items()]
    lines += [
        "",
        "Use `request` of either client for anything else, such as the [central bank's Pix API](pix-api.md): it repeats a",
        "`GET`, and a request with an `external_id` in its body.",
        "",
    ]
    return "\n".join(lines)


def list_python_methods() -> Iterator[tuple[str, str, str]]:
    """Name, method and path of each method of the Python client."""
    for name, method in _list_python():
        call = _ask(method)
        yield name, call.method, call.path
    file: Any = ask_for_statement(cast(Any, "text"), cast(Any, "text"), "text", None)
    yield "download_statement", file.method, file.path


def _list_python() -> Iterator[tuple[str, _Method]]:
    for module in (_resources, _sandbox):
        for name, resource in vars(module).items():
            if inspect.isclass(resource) and issubclass(resource, Resource) and resource is not Resource:
                prefix = "" if name in _OWN else f"{name.lower()}."
                for own, method in vars(resource).items():
                    if isinstance(method, Operation | Listing | Following):
                        yield f"{prefix}{own}", method


class _Bare(str):
    """An annotation that a signature prints without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _list_python_signatures() -> Iterator[str]:
    for name, method in (*_list_python(), ("download_statement", Client.download_statement)):
        found = inspect.signature(method)
        parameters = [one.replace(annotation=_Bare(one.annotation)) for one in found.parameters.values() if one.name != "self"]
        yield f"{name}{found.replace(parameters=parameters, return_annotation=_Bare(found.return_annotation))}"


def list_typescript_methods() -> Iterator[tuple[str, str]]:
    """Name of each method of the TypeScript client, and its operation."""
    for name, operation, _ in _read_typescript():
        yield name, operation


def _read_typescript() -> Iterator[tuple[str, str, str]]:
    known = {operation["operationId"] for _, _, operation in typescript.list_operations()}
    for file in ("resources.ts", "sandbox.ts"):
        prefix = method = signature = ""
        for line in (typescript.FOLDER / file).read_text(encoding="utf-8").splitlines():
            if found := _CLASS.match(line):
                prefix = "" if found[1] in _OWN else f"{found[1].lower()}."
            elif (found := _METHOD.match(line)) and found[2] != "constructor":
                method, signature = f"{prefix}{found[2]}", f"{prefix}{found[1]}"
            elif method and (named := known.intersection(re.findall(r"\w+", line))):
                yield method, named.pop(), signature
                method = ""


def _ask(method: _Method) -> Call[Any]:
    """The request of a method called with its required arguments only."""
    parameters = list(inspect.signature(method.build).parameters.values())[1:]
    needed = {one.name: "text" for one in parameters if one.default is inspect.Parameter.empty}
    return cast(Call[Any], method.build(None, **needed))


def _list_rows() -> Iterator[tuple[str, str]]:
    """The group and the row of each operation."""
    in_python, in_typescript = list(list_python_methods()), list(list_typescript_methods())
    for method, path, operation in typescript.list_operations():
        name = operation["operationId"]
        python = [own for own, *asked in in_python if asked == [method, path]]
        other = [own for own, asked in in_typescript if asked == name]
        again = "read" if method == "GET" else "named" if typescript.is_named(operation) else "once"
        scope = typescript.scope_of(operation)
        cells = [f"`{name}`", _join(python), _join(other), "none" if scope is None else f"`{scope or '*'}`", again]
        yield _find_group(python[0]), f"| {' | '.join(cells)} |"


def _find_group(method: str) -> str:
    name = method.partition("(")[0]
    return name.partition(".")[0] if "." in name else "account"


def _wrap(signature: str) -> str:
    """Break a signature after its commas only."""
    joined = re.sub(r"(?<!,) ", "\0", signature)
    lines = textwrap.wrap(joined, _LINE_MAX, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _join(names: list[str]) -> str:
    return ", ".join(f"`client.{name}`" for name in names)
