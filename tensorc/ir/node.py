"""Interned IR nodes: equal fields give the same object, so equality and hashing are by identity.

A node class is declared with `@node` and derives from `Node`. Fields are read-only and hashable
(tuples, never lists), and two instances with equal fields are one object: hashing a DAG takes
constant time however much it shares, and memo tables are free. The table holds nodes weakly and is
locked, so nodes die with their last user and may be made from any thread.

Nodes carry no source positions (two uses of one object have two positions) and constructors check
structure only; everything relational belongs to a verifier.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")
N = TypeVar("N", bound="Node")

_TABLE: weakref.WeakValueDictionary[tuple[object, ...], Any] = weakref.WeakValueDictionary()
_LOCK = threading.RLock()
_ROOM = 1 << 20  # bytes of the table that are not worth looking at


class Interned(type):
    """Metaclass whose instances are shared: equal fields, same object."""

    def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        names = _names(cls)
        if not kwargs and len(args) == len(names):
            found = _TABLE.get((cls, *args))
            if found is not None:
                return cast(T, found)
        made = cast(T, super().__call__(*args, **kwargs))  # type: ignore[misc]
        key = (cls, *[getattr(made, name) for name in names])
        with _LOCK:
            return cast(T, _TABLE.setdefault(key, made))


def compact() -> None:
    """Give back the room of nodes that are gone: a dict keeps its largest size until it grows.

    An entry that dies while the table is copied stays as a dead reference, which lookups pass over.
    """
    table: Any = _TABLE  # `data`, the dict below it, is in no type stub
    with _LOCK:
        wide = sys.getsizeof(table.data) > _ROOM + 256 * len(table.data)
        if wide:
            table.data = dict(table.data)
    if wide:
        _trim()


def _trim() -> None:
    """Give the C library's free pages back to the system: glibc keeps those below any that is used
    (of 10**6 nodes that are gone, 8 to 40 MiB). Where there is no malloc_trim, nothing is done."""
    import ctypes

    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class Node(metaclass=Interned):
    """Base of every IR node: immutable, compared and hashed by identity."""

    __slots__ = ("__weakref__", "_facts")

    def __reduce__(self) -> tuple[type[Node], tuple[object, ...]]:
        """Copying rebuilds through the constructor, which returns the same object."""
        return type(self), fields_of(self)


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Declare an IR node: a frozen, slotted dataclass with identity equality."""
    return dataclasses.dataclass(frozen=True, slots=True, eq=False)(cls)


def fields_of(item: Node) -> tuple[object, ...]:
    """The node's fields in declaration order."""
    return _getter(type(item))(item)


@cache
def _getter(cls: type[Node]) -> Callable[[Node], tuple[object, ...]]:
    """What takes the fields of a class's nodes, in one step for most."""
    names = _names(cls)
    if len(names) > 1:
        return cast("Callable[[Node], tuple[object, ...]]", attrgetter(*names))
    return lambda item: tuple(getattr(item, name) for name in names)


def _names(cls: Any) -> tuple[str, ...]:
    return cls.__match_args__


def fact(function: Callable[[N], T]) -> Callable[[N], T]:
    """Memoize a pure function of one node on the node itself; the value dies with the node."""
    name = f"{function.__module__}.{function.__qualname__}"

    def known(item: N) -> T:
        try:
            facts: dict[str, Any] = item._facts  # type: ignore[attr-defined]
        except AttributeError:
            facts = {}
            object.__setattr__(item, "_facts", facts)
        if name not in facts:
            facts[name] = function(item)
        return cast(T, facts[name])

    known.__name__, known.__doc__ = function.__name__, function.__doc__
    known.__qualname__, known.__module__ = function.__qualname__, function.__module__
    return known


def children(item: Node) -> tuple[Node, ...]:
    """The nodes directly below `item`, in field order; tuples of nodes are flattened."""
    found: list[Node] = []
    _collect(fields_of(item), found)
    return tuple(found)


@fact
def written_out(item: Node) -> int:
    """How many nodes there would be if every shared one were written wherever it stands: what
    printing costs, which may be exponentially more than the graph has."""
    return 1 + sum(written_out(child) for child in children(item))


def _collect(values: tuple[object, ...], found: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple) and value:
            _collect(cast("tuple[object, ...]", value), found)


def postorder(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node reachable from `roots` once, children first; iterative, linear in the DAG."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in roots][::-1]
    while stack:
        item, expanded = stack.pop()
        if expanded:
            yield item
        elif item not in seen:
            seen.add(item)
            stack.append((item, True))
            stack.extend((child, False) for child in reversed(children(item)) if child not in seen)


def rebuild(item: N, change: Callable[[Node], Node]) -> N:
    """`item` with `change` applied to each direct child; the same object if none changed."""
    old = fields_of(item)
    new = tuple(_changed(value, change) for value in old)
    if all(a is b for a, b in zip(old, new, strict=True)):
        return item
    return type(item)(*new)


def replaced(root: Node, change: Callable[[Node], Node | None]) -> Node:
    """`root` with each node for which `change` gives another one replaced by that, outermost first.

    What stands in several places is done once: expressions are graphs, and as trees they may be
    exponentially larger.
    """
    memo: dict[Node, Node] = {}

    def deep(item: Node) -> Node:
        if item not in memo:
            other = change(item)
            memo[item] = rebuild(item, deep) if other is None else other
        return memo[item]

    return deep(root)


def _changed(value: object, change: Callable[[Node], Node]) -> object:
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        old = cast("tuple[object, ...]", value)
        new = tuple(_changed(part, change) for part in old)
        return old if all(a is b for a, b in zip(old, new, strict=True)) else new
    return value
