"""Operations written once, for threads and for asyncio.

A method under ``@operation`` only says what to ask for: it makes a ``Call``. On a ``Client`` it gives the result, on an
``AsyncClient`` something to await; the types say so too. ``@listing`` does the same for lists, ``@following`` for
the feed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from pixconnect_client._call import Call
from pixconnect_client.feed import EventFeed, FeedEvent
from pixconnect_client.lists import AsyncItems, Items, Page

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")
CallT = TypeVar("CallT")


class Sync(Protocol):
    """Sends and waits."""

    def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> Items[ItemT]: ...
    def follow(self, call: Call[EventFeed]) -> Iterator[FeedEvent]: ...


class Async(Protocol):
    """The same, to be awaited."""

    async def send(self, call: Call[AnswerT]) -> AnswerT: ...
    def iterate(self, call: Call[Page[ItemT]]) -> AsyncItems[ItemT]: ...
    def follow(self, call: Call[EventFeed]) -> AsyncIterator[FeedEvent]: ...


SenderT = TypeVar("SenderT", bound=Sync | Async)


class Resource(Generic[SenderT]):
    """Some of the service's operations, and who sends them."""

    def __init__(self, sender: SenderT) -> None:
        self._sender = sender

    @property
    def sender(self) -> SenderT:
        return self._sender


class _Method(Generic[P, CallT]):
    """What ``build`` asks for, as a method of a resource."""

    def __init__(self, build: Callable[Concatenate[Any, P], CallT]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    def bind(self, resource: Resource[Any], hand_over: Callable[[CallT], Any]) -> Callable[P, Any]:
        @wraps(self.build)
        def ask(*args: P.args, **kwargs: P.kwargs) -> object:
            return hand_over(self.build(resource, *args, **kwargs))

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
    """Makes a method that asks for what the function builds."""
    return Operation(build)


def listing(build: Callable[Concatenate[Any, P], Call[Page[ItemT]]]) -> Listing[P, ItemT]:
    """Makes a method that iterates over the list that the function builds."""
    return Listing(build)


def following(build: Callable[Concatenate[Any, P], Call[EventFeed]]) -> Following[P]:
    """Makes a method that iterates over the feed without an end."""
    return Following(build)
