"""PerThread: an attribute that has its own value in each thread."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item")


class PerThread(threading.local, Generic[Item]):
    """A class attribute with a list per object and thread, empty until it is set.

    The lists are not in the object. So threads that share a layer do not see each other's reports, and copies and
    pickles of a layer do not contain them. A list is deleted with its object or its thread, whichever ends first.
    """

    def __init__(self) -> None:  # once in each thread that uses it
        self._lists: weakref.WeakKeyDictionary[Any, list[Item]] = weakref.WeakKeyDictionary()

    @overload
    def __get__(self, owner: None, kind: type) -> PerThread[Item]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> list[Item]: ...

    def __get__(self, owner: Any, kind: type) -> Any:
        return self if owner is None else self._lists.get(owner, [])

    def __set__(self, owner: Any, items: list[Item]) -> None:
        self._lists[owner] = items
