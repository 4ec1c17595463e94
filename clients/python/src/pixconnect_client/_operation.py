"""Operations written once, for threads and for asyncio.

A method under ``@operation`` only says what to ask for: it makes a ``Call``. On a ``Client`` it gives the result, on an
``AsyncClient`` something to await; the types say so too. ``@listing`` does the same for lists.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from pixconnect_client._call import Call
from pixconnect_client.lists import AsyncItems, Items, Page

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")


class Sync(Protocol):
    """Sends and waits."""

    def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> Items[ItemT]: ...


class Async(Protocol):
    """The same, to be awaited."""

    async def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> AsyncItems[ItemT]: ...


SenderT = TypeVar("SenderT", bound=Sync | Async)


class Resource(Generic[SenderT]):
    """Some of the service's operations, and who sends them."""

    def __init__(self, sender: SenderT) -> None:
        self._sender = sender

    @property
    def sender(self) -> SenderT:
        return self._sender


class Operation(Generic[P, AnswerT]):
    def __init__(self, build: Callable[Concatenate[Any, P], Call[AnswerT]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, AnswerT]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, Coroutine[Any, Any, AnswerT]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self

        @wraps(self.build)
        def ask(*args: P.args, **kwargs: P.kwargs) -> object:
            return resource.sender.send(self.build(resource, *args, **kwargs))

        return ask


class Listing(Generic[P, ItemT]):
    def __init__(self, build: Callable[Concatenate[Any, P], Call[Page[ItemT]]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Items[ItemT]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncItems[ItemT]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self

        @wraps(self.build)
        def ask(*args: P.args, **kwargs: P.kwargs) -> object:
            return resource.sender.iterate(self.build(resource, *args, **kwargs))

        return ask


def operation(build: Callable[Concatenate[Any, P], Call[AnswerT]]) -> Operation[P, AnswerT]:
    """Makes a method that asks for what the function builds."""
    return Operation(build)


def listing(build: Callable[Concatenate[Any, P], Call[Page[ItemT]]]) -> Listing[P, ItemT]:
    """Makes a method that iterates over the list that the function builds."""
    return Listing(build)
