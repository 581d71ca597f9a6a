"""The signature of a traced function: read by the text parser, compared with its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault
from tensorc.ir.source import Diagnostic, Source
from tensorc.lang.names import accept
from tensorc.lang.parse import parse_signature
from tensorc.lang.spot import Spot, raised
from tensorc.lang.surface import Operator

Function = Callable[..., object]
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def header(signature: str, name: str, function: Function, spot: Spot) -> Operator:
    """The operator that the signature declares, without equations.

    `spot` is where it was declared. Raises NotationError with the faults of the signature, E106 or
    E117 for a name that no operator may have, E116 where the parameters disagree.
    """
    called = name or _name_of(function)
    accept(called, spot)
    try:
        declared = parse_signature(Source(f"<signature of {called}>", signature))
    except NotationError as error:
        raise NotationError([_declared(item, spot) for item in error.diagnostics]) from None
    _agree(declared, function, spot)
    return replace(declared, name=called)


def is_method(declared: Operator, function: Function) -> bool:
    """Whether the function stands in a class and has one more parameter in front: `self`."""
    given = _parameters(function)
    return len(given) == len(declared.parameters) + 1 and _in_class(function)


def _name_of(function: Function) -> str:
    """The function's name; "lambda" for one without."""
    inner = getattr(function, "func", function)  # what functools.partial holds
    name = str(getattr(inner, "__name__", type(inner).__name__))
    return "lambda" if name == "<lambda>" else name


def _declared(item: Diagnostic, spot: Spot) -> Diagnostic:
    return replace(item, related=(*item.related, ("declared", spot)))


def _parameters(function: Function) -> list[str]:
    """The names of the parameters that a call may give by name and that have no default."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [item.name for item in found if item.kind in _NAMED and item.default is item.empty]


def _in_class(function: Function) -> bool:
    outer = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>") and not inspect.ismethod(function)


def _agree(declared: Operator, function: Function, spot: Spot) -> None:
    """E116 unless the function takes exactly the signature's parameters, in its order."""
    given = _parameters(function)
    wanted = [item.name for item in declared.parameters]
    if given == wanted or (is_method(declared, function) and given[1:] == wanted):
        return
    for item in declared.parameters:
        if item.name not in given:
            missing = fault("E116", item.span, name=item.name, found=", ".join(given))
            raise NotationError([_declared(missing, spot)])
    extra = [name for name in given if name not in wanted]
    if extra:
        do = "declare it, or give it a default value"
        raise raised("E116.extra", spot, name=extra[0], do=do)
    order = {"signature": ", ".join(wanted), "function": ", ".join(given)}
    raise raised("E116.order", spot, do="use one order", **order)
