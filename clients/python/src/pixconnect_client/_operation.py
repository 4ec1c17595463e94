"""Decorators that define an operation once for both clients.

A method under ``@operation`` builds a ``Call``. On a ``Client`` it returns the result, on an ``AsyncClient`` an awaitable,
and its types reflect that. ``@listing`` does the same for lists, ``@following`` for the feed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from pixconnect_client._call import Call
from pixconnect_client.feed import EventFeed, FeedEvent
from pixconnect_client.lists import AsyncItems, Items, Page

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")
CallT = TypeVar("CallT")


class Sync(Protocol):
    """Runs calls synchronously."""

    def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> Items[ItemT]: ...
    def follow(self, call: Call[EventFeed]) -> Iterator[FeedEvent]: ...


class Async(Protocol):
    """Runs calls as coroutines."""

    async def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> AsyncItems[ItemT]: ...
    def follow(self, call: Call[EventFeed]) -> AsyncIterator[FeedEvent]: ...


SenderT = TypeVar("SenderT", bound=Sync | Async)


class Resource(Generic[SenderT]):
    """A group of operations, bound to the client that runs them."""

    def __init__(self, sender: SenderT) -> None:
        self._sender = sender

    @property
    def sender(self) -> SenderT:
        return self._sender


class _Method(Generic[P, CallT]):
    """The call that ``build`` makes, as a method of a resource."""

    def __init__(self, build: Callable[Concatenate[Any, P], CallT]) -> None:
        self.build = build
        self.__name__ = build.__name__
        self.__doc__ = build.__doc__
        # As it is called, so that `help()` and editors show parameters and result: without the resource and the call.
        signature = inspect.signature(build)
        result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]").replace("Page[", "Items[")
        self.__signature__ = inspect.Signature([*signature.parameters.values()][1:], return_annotation=result)

    def __call__(self, resource: Resource[Any], *args: P.args, **kwargs: P.kwargs) -> object:
        """As a function of its class: `help()` shows the parameters only of what can be called."""
        method: Callable[P, object] = cast(Any, self).__get__(resource, type(resource))
        return method(*args, **kwargs)

    def bind(self, resource: Resource[Any], hand_over: Callable[[CallT], Any]) -> Callable[P, Any]:
        @wraps(self.build)
        def ask(*args: P.args, **kwargs: P.kwargs) -> object:
            return hand_over(self.build(resource, *args, **kwargs))

        ask.__signature__ = self.__signature__  # pyright: ignore[reportAttributeAccessIssue]  functions take any attribute
        return ask


class Operation(_Method[P, Call[AnswerT]]):
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, AnswerT]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, Coroutine[Any, Any, AnswerT]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else self.bind(resource, resource.sender.send)


class Listing(_Method[P, Call[Page[ItemT]]]):
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Items[ItemT]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncItems[ItemT]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else self.bind(resource, resource.sender.iterate)


class Following(_Method[P, Call[EventFeed]]):
    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Iterator[FeedEvent]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncIterator[FeedEvent]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else self.bind(resource, resource.sender.follow)


def operation(build: Callable[Concatenate[Any, P], Call[AnswerT]]) -> Operation[P, AnswerT]:
    """Turn a function that builds a call into a method that runs it."""
    return Operation(build)


def listing(build: Callable[Concatenate[Any, P], Call[Page[ItemT]]]) -> Listing[P, ItemT]:
    """Turn a function that builds a list call into a method that iterates over the list."""
    return Listing(build)


def following(build: Callable[Concatenate[Any, P], Call[EventFeed]]) -> Following[P]:
    """Turn a function that builds a feed call into a method that iterates endlessly."""
    return Following(build)
