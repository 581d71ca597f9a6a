"""Tokens to expressions: a precedence parser for the one expression grammar of every level.

    expr  = and { "or" and }          and = not { "and" not }        not = "not" not | cmp
    cmp   = bor { ("<"|"<="|">"|">="|"=="|"!=") bor }
    bor, bxor, band, shift, arith, term: | ^ & << >> + - * / // %, left to right, as in Python
    unary = ("-"|"+"|"~") unary | power                power = atom [ "**" unary ]
    atom  = NAME | NUMBER | "|" NAME "|" | "(" expr ")" | NAME "[" subs "]" | NAME "(" exprs ")"
          | DTYPE "(" expr ")" | "bitcast" "(" DTYPE "," expr ")"
          | NAME "[" subs [ "," DTYPE ] "]" "(" expr [ "where" expr ] ")"

`+`, `*`, comparisons, `and` and `or` become n-ary nodes unless brackets say otherwise, so nothing
recurses along a long sum. A minus before a number is part of the number: -2 is a literal, -(2) is
not. Names mean nothing here; whether `max` is a tensor or a function follows from what it stands
before.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, NoReturn

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault, filled
from tensorc.ir.dtypes import BY_NAME, REAL, DType
from tensorc.ir.entry import Message
from tensorc.ir.functions import CALLABLE, FUNCTIONS, REDUCERS, SUGAR
from tensorc.ir.numbers import WORDS, read_number
from tensorc.ir.source import Diagnostic, Range, Source
from tensorc.ir.syntax import (
    Access,
    Binding,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
    height,
)
from tensorc.ir.tensor import Literal
from tensorc.ir.tokens import Token

# Binding strength, weakest first; the printer uses the same numbers.
(OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, ARITH, TERM, UNARY, POWER, ATOM) = range(13)

INFIX: dict[str, tuple[str, int]] = {
    "or": ("or", OR), "and": ("and", AND),
    "<": ("lt", COMPARE), "<=": ("le", COMPARE), ">": ("gt", COMPARE), ">=": ("ge", COMPARE),
    "==": ("eq", COMPARE), "!=": ("ne", COMPARE),
    "|": ("bitor", BITOR), "^": ("bitxor", BITXOR), "&": ("bitand", BITAND),
    "<<": ("shl", SHIFT), ">>": ("shr", SHIFT), "+": ("add", ARITH), "-": ("sub", ARITH),
    "*": ("mul", TERM), "/": ("div", TERM), "//": ("floordiv", TERM), "%": ("mod", TERM),
}  # fmt: skip
_NO_INFIX = ("", -1)
FLAT = frozenset({"add", "mul", "and", "or"})
PREFIX = {"-": "neg", "+": "", "~": "invert"}

MOST_NESTED = 200
MOST_TERMS = 20_000

KEYWORDS = frozenset(
    "op const monoid where and or not in as if else for def scan repeat until".split()
)
RESERVED = KEYWORDS | frozenset(WORDS) | frozenset(BY_NAME)

PLANNED_REDUCTIONS = frozenset({"topk", "sort", "dft", "inverse", "cholesky"})
PLANNED_FUNCTIONS = frozenset({"uniform", "normal", "grad"})

_INSTEAD = {
    "if": "write select(condition, a, b)",
    "else": "write select(condition, a, b)",
    "for": "an equation holds for every value of its indices; it needs no loop",
    "=": "equality is ==",
    "not": "put brackets around not ...",
    "[": "name the value in an equation of its own, then read it at subscripts",
    "(": "multiplication is written *",
    ".": "the extent of i is |i|",
}
_OPERATORS = frozenset({"and", "or", "not", "where", "in", "as", "if", "else", "for"})
_SUGAR_ARITY: dict[str, tuple[int, int | None]] = {
    "clamp": (3, 3), "inside": (2, 2), "select": (3, 3),
}  # fmt: skip
_FUNCTION_NAMES = {
    "where": "select(condition, a, b)", "maximum": "max(a, b)", "minimum": "min(a, b)",
    "relu": "max(x, 0)", "norm": "sqrt(sum[i](x[i] ** 2))", "len": "|i|", "float": "f32(x)",
    "int": "i32(x)", "ceiling": "ceil(x)", "fabs": "abs(x)", "ln": "log(x)", "power": "pow(a, b)",
    "bitcast": "bitcast(dtype, x)", "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
    "silu": "x * sigmoid(x)", "logical_not": "not x", "square": "x ** 2",
}  # fmt: skip
_DTYPE_NAMES = {
    "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16", "float32": "f32",
    "float": "f32", "fp32": "f32", "float64": "f64", "double": "f64", "fp64": "f64",
    "int": "i32", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "c64": "complex64", "c128": "complex128",
    "complex": "complex64", "e4m3": "f8e4m3", "e5m2": "f8e5m2", "i1": "bool",
}  # fmt: skip


class Item(NamedTuple):
    """One entry between [ and ]: a subscript (`value`), a size (`value` of `name`), a planned
    range (`name` alone), or the accumulator type that may stand last (`extra`, with its token)."""

    value: Syntax | None
    name: Token | None
    extra: DType | None


class Parser:
    """Reads from the tokens of one statement; the grammars of files and of level 2 are built on it.

    Methods raise NotationError at the first fault of syntax. Faults that leave the structure
    clear (an unknown function, a planned form) are kept, and raised by `finish`.
    `functions` are further names that may be called.
    """

    def __init__(
        self, source: Source, tokens: Sequence[Token], functions: frozenset[str] = frozenset()
    ) -> None:
        self.source = source
        last = tokens[-1].end if tokens else 0
        self._tokens = (*tokens, Token("end", "", last, last))
        self._index = 0
        self._functions = functions
        self._kept: list[Diagnostic] = []
        self._brackets = self._plain = self._nested = self._terms = 0

    # What every grammar needs.

    @property
    def token(self) -> Token:
        """The next token; kind "end" after the last."""
        return self._tokens[self._index]

    def at(self, text: str) -> bool:
        """Whether the next token is `text`; the empty text is the end."""
        return self.token.text == text

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` places after the next one."""
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Consume one token."""
        token = self._tokens[self._index]
        self._index = min(self._index + 1, len(self._tokens) - 1)
        return token

    def accept(self, text: str) -> Token | None:
        """Consume the next token if it is `text`."""
        return self.next() if self.token.text == text else None

    def expect(self, text: str, what: str = "") -> Token:
        """Consume `text`, or fail with E108; `what` says what else could have stood here."""
        return self.accept(text) or self.unexpected(what or text)

    def name(self, what: str = "a name") -> Token:
        """Consume a name that is not reserved (E117)."""
        token = self.token
        if token.kind != "name":
            self.unexpected(what)
        if token.text in RESERVED:
            self.fail("E117", token, name=token.text)
        return self.next()

    def dtype(self) -> DType:
        """Consume the name of a storage type."""
        found = BY_NAME.get(self.token.text)
        if found is None:
            near = _DTYPE_NAMES.get(self.token.text) or nearest(self.token.text, BY_NAME)
            self.unexpected("a dtype", do=f"did you mean {near}?" if near else "")
        self.next()
        return found

    def where(self, token: Token) -> Range:
        """The characters of one token."""
        return Range(self.source, token.start, token.end)

    def since(self, token: Token) -> Range:
        """From the start of `token` to the end of the last one consumed."""
        return Range(self.source, token.start, self._tokens[max(0, self._index - 1)].end)

    def fail(self, code: str, at: Token, *, do: str = "", **fields: object) -> NoReturn:
        """Raise the fault `code` at a token."""
        raise NotationError([filled(code, self.where(at), fields, Message("", do=do))])

    def unexpected(self, what: str, do: str = "") -> NoReturn:
        """Raise E108 at the next token: `what` was expected there."""
        token = self.token
        found = "the end of the line" if token.kind == "end" else token.text
        found = found if len(found) <= 40 else f"{found[:37]}..."
        do = do or _INSTEAD.get(token.text, "")
        self.fail("E108", token, what=what, token=found, do=do)

    def keep(self, item: Diagnostic) -> None:
        """Remember a fault that leaves the structure clear; `finish` raises it."""
        self._kept.append(item)

    def finish(self, what: str = "an operator or the end of the line") -> None:
        """Raise what is left: tokens after the end (E108), then the first fault that was kept."""
        if self.token.kind != "end":
            self.unexpected(what)
        if self._kept:
            raise NotationError(self._kept[:1])

    # Expressions. Calls are kept shallow: at most three frames for each open bracket.

    def whole(self, level: int = OR) -> Syntax:
        """One expression within the limits of depth (E104) and size (E105)."""
        first, start = self.token, self._index
        self._terms = 1
        found = self.expression(level)
        if self._terms > MOST_TERMS:
            self.fail("E105", first, count=self._terms, limit=MOST_TERMS)
        # A tree is no deeper than its text has tokens.
        if self._index - start > MOST_NESTED and (depth := height(found)) > MOST_NESTED:
            self.fail("E104", first, depth=depth, limit=MOST_NESTED)
        return found

    def expression(self, level: int = OR) -> Syntax:
        """An expression of operators that bind at least as strongly as `level`."""
        first = self.token
        self._deeper()
        if level <= NOT and self.accept("not"):
            left: Syntax = Call("not", (self.expression(NOT),), self.since(first))
        else:
            prefixes = self._prefixes()
            self._deeper(len(prefixes))
            atom = self.token
            left = self._reader()()
            if self.accept("**"):
                left = Call("pow", (left, self.expression(UNARY)), self.since(atom))
            elif prefixes and prefixes[-1].text == "-" and isinstance(left, Constant):
                left = self._signed(prefixes, atom, left)
            left = self._prefixed(prefixes, left)
            self._nested -= len(prefixes)
        while (strength := INFIX.get(self.token.text, _NO_INFIX)[1]) >= level:
            names: list[str] = []
            args = [left]
            while self._joins(names, strength):
                args.append(self.expression(strength + 1))
            left = self._joined(names, args, first)
        self._nested -= 1
        return left

    def _deeper(self, by: int = 1) -> None:
        """Count `by` more open operators; a plain bracket is no operator."""
        self._nested += by
        self._check_depth()

    def _check_depth(self) -> None:
        depth = max(self._nested - self._plain, self._brackets)
        if depth > MOST_NESTED:
            self.fail("E104", self.token, depth=depth, limit=MOST_NESTED)

    def _joins(self, names: list[str], strength: int) -> bool:
        """Consume an operator that continues the node whose operators so far are `names`."""
        name, own = INFIX.get(self.token.text, _NO_INFIX)
        more = strength == COMPARE or (name in FLAT and name in names)
        if own != strength or (names and not more):
            return False
        self.next()
        names.append(name)
        self._terms += 1
        return True

    def _joined(self, names: list[str], args: list[Syntax], first: Token) -> Syntax:
        span = self.since(first)
        if len(names) > 1 and names[0] not in FLAT:
            return Chain(tuple(names), tuple(args), span)
        return Call(names[0], tuple(args), span)

    def _prefixes(self) -> list[Token]:
        found: list[Token] = []
        while self.token.text in PREFIX:
            found.append(self.next())
        return found

    def _signed(self, prefixes: list[Token], atom: Token, number: Constant) -> Constant:
        """-2 as one literal: takes the minus off `prefixes`."""
        if atom.kind != "number":
            return number
        return Constant(_negative(number.literal), self.since(prefixes.pop()))

    def _prefixed(self, prefixes: list[Token], operand: Syntax) -> Syntax:
        for token in reversed(prefixes):
            if name := PREFIX[token.text]:
                operand = Call(name, (operand,), self.since(token))
        return operand

    def _reader(self) -> Callable[[], Syntax]:
        """What reads the atom that starts here; returned, not called, to keep the stack low."""
        token, after = self.token, self.peek().text
        if token.text == "(":
            return self._bracketed
        if token.kind == "number":
            return self._number
        if token.text == "|":
            return self._extent
        if token.kind != "name" or token.text in _OPERATORS:
            self.unexpected("a value")
        if token.text in BY_NAME:
            return self._cast
        if token.text in WORDS:
            return self._word
        if token.text in KEYWORDS:
            self.fail("E117", token, name=token.text)
        if token.text == "bitcast" and after == "(":
            return self._bitcast
        return self._read if after == "[" else self._call if after == "(" else self._bare

    def _number(self) -> Constant:
        token = self.next()
        found = read_number(token.text, self.where(token))
        if isinstance(found, Diagnostic):
            raise NotationError([found])
        return Constant(found, self.where(token))

    def _word(self) -> Constant:
        token = self.next()
        return Constant(WORDS[token.text], self.where(token))

    def _bare(self) -> Name:
        token = self.next()
        return Name(token.text, self.where(token))

    def _extent(self) -> SizeOf:
        first = self.next()
        magnitude = "|i| is the extent of i; for a magnitude write abs(...)"
        if self.token.kind != "name":
            self.unexpected("the name of a dimension", do=magnitude)
        name = self.name()
        if not self.accept("|"):
            self.unexpected("|", do=magnitude)
        return SizeOf(name.text, self.since(first))

    def open(self, bracket: str) -> Token:
        """Consume an opening bracket and count it."""
        token = self.expect(bracket)
        self._brackets += 1
        self._check_depth()
        return token

    def close(self, bracket: str, what: str = "") -> None:
        """Consume a closing bracket."""
        self.expect(bracket, what)
        self._brackets -= 1

    def _bracketed(self) -> Syntax:
        self.open("(")
        self._plain += 1
        inner = self.expression()
        self._plain -= 1
        self.close(")", "an operator or )")
        return inner

    def _cast(self) -> Convert:
        first = self.token
        dtype = self.dtype()
        if not self.at("("):
            self.unexpected("(", do=f"a cast is {dtype}(x); as a name {dtype} is reserved")
        self.open("(")
        arg = self.expression()
        self.close(")", "an operator or )")
        return Convert(dtype, arg, False, self.since(first))

    def _bitcast(self) -> Convert:
        first = self.next()
        self.open("(")
        dtype = self.dtype()
        self.expect(",")
        arg = self.expression()
        self.accept(",")
        self.close(")", "an operator or )")
        return Convert(dtype, arg, True, self.since(first))

    def _call(self) -> Call:
        name = self.next()
        self.open("(")
        args: list[Syntax] = []
        while not self.at(")"):
            args.append(self.expression())
            if not self.accept(","):
                break
        self.close(")", "an operator, a comma or )")
        self._terms += max(0, len(args) - 1)
        self._check_function(name, len(args))
        return Call(name.text, tuple(args), self.since(name))

    def _read(self) -> Access | Reduction:
        name = self.next()
        items: list[Item] = []
        self.open("[")
        while not self.at("]"):
            items.append(self.special_item() or Item(self.expression(), None, None))
            if not self.accept(","):
                break
        self.close("]", "an operator, a comma or ]")
        if self.at("("):
            return self._reduction(name, items)
        return Access(name.text, self._subscripts(items), self.since(name))

    def special_item(self) -> Item | None:
        """`name=size`, `name in a..b` or a dtype at the end of a bracket; None: an expression."""
        token, after = self.token, self.peek().text
        last = after == "]" or (after == "," and self.peek(2).text == "]")
        if token.text in BY_NAME and last:
            return Item(None, token, self.dtype())
        if token.kind != "name" or after not in ("=", "in"):
            return None
        name = self.name()
        if self.next().text == "=":
            return Item(self.expression(ARITH), name, None)
        self._range(name)
        return Item(None, name, None)

    def _range(self, name: Token) -> None:
        """lower .. upper, after `name in`: a planned form."""
        self.expression(ARITH)
        self.expect("..", "an operator or ..")
        self.expression(ARITH)
        core = f"write where a <= {name.text} and {name.text} < b"
        self.planned(name, f"{name.text} in a..b", core)

    def planned(self, token: Token, form: str, core: str) -> None:
        """Keep E118: `form` is planned, `core` says what to write today."""
        self.keep(fault("E118", self.since(token), form=form, core=core))

    def _subscripts(self, items: list[Item]) -> tuple[Syntax, ...]:
        """Items as subscripts: expressions only."""
        for item in items:
            if isinstance(item.extra, DType):
                self.unexpected("(", do=f"{item.extra} is reserved as a name")
            if item.name is not None:
                self._misplaced(item, "a subscript")
        return tuple(item.value for item in items if item.value is not None)

    def _misplaced(self, item: Item, what: str) -> None:
        """Keep E108 for an item that does not fit where it stands."""
        if item.name is not None:
            where, token = self.where(item.name), f"{item.name.text} with a size"
        else:
            assert item.value is not None
            span = item.value.span.resolve()
            where, token = item.value.span, self.source.line(span.line)[span.column - 1 :][:40]
        self.keep(fault("E108", where, what=what, token=token))

    def _reduction(self, reducer: Token, items: list[Item]) -> Reduction:
        dtype = items[-1].extra if items and isinstance(items[-1].extra, DType) else None
        bindings = self.bindings(items[:-1] if dtype else items)
        if not bindings:
            self.fail("E115", reducer, reducer=reducer.text, prefix="")
        self._check_reducer(reducer)
        self.open("(")
        body = self.expression()
        where = self.expression() if self.accept("where") else None
        self.close(")", "an operator, where or )" if where is None else "an operator or )")
        return Reduction(reducer.text, bindings, dtype, body, where, self.since(reducer))

    def bindings(self, items: list[Item]) -> tuple[Binding, ...]:
        """Items as the indices of a left side or a reduction: `i` or `i=4`."""
        found: list[Binding] = []
        for item in items:
            if item.name is not None and item.extra is None:
                found.append(Binding(item.name.text, item.value, self.where(item.name)))
            elif isinstance(item.value, Name):
                found.append(Binding(item.value.name, None, item.value.span))
            else:
                self._misplaced(item, "the name of an index")
        return tuple(found)

    def _check_function(self, name: Token, count: int) -> None:
        """Keep E118 or E119 if no function of this name takes `count` arguments."""
        if name.text in self._functions:
            return
        bounds = _arity(name.text)
        if name.text in PLANNED_FUNCTIONS:
            return self.planned(name, f"{name.text}(...)", "pass the values as a parameter")
        if bounds is None:
            do = _instead_of_function(name.text)
            return self._keep_at(name, "E119", do, kind="function", name=name.text)
        least, most = bounds
        if count < least or (most is not None and count > most):
            allowed = _counted(least, most)
            self._keep_at(name, "E119.arity", "", name=name.text, count=count, takes=allowed)

    def _check_reducer(self, name: Token) -> None:
        if name.text in PLANNED_REDUCTIONS:
            return self.planned(name, f"{name.text}[...](...)", "pass the result as a parameter")
        if name.text not in REDUCERS:
            near = nearest(name.text, REDUCERS)
            do = f"did you mean {near}[...](...)?" if near else f"one of {', '.join(REDUCERS)}"
            if name.text in CALLABLE:
                do = f"{name.text} is a function of one element: {name.text}(...)"
            self._keep_at(name, "E119", do, kind="reduction", name=name.text)

    def _keep_at(self, at: Token, code: str, do: str, **fields: object) -> None:
        self.keep(filled(code, self.where(at), fields, Message("", do=do)))


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` resembles, or the empty string."""
    found = difflib.get_close_matches(name[:64], list(known), 1, 0.6)
    return found[0] if found else ""


def _negative(literal: Literal) -> Literal:
    assert isinstance(literal.value, Fraction)
    if literal.value == 0 and literal.dtype is REAL:
        return Literal("-0", REAL)
    return Literal(-literal.value, literal.dtype)


def _arity(name: str) -> tuple[int, int | None] | None:
    if name in _SUGAR_ARITY:
        return _SUGAR_ARITY[name]
    return (FUNCTIONS[name].least, FUNCTIONS[name].most) if name in CALLABLE else None


def _counted(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more arguments"
    return f"{least} argument{'s' if least > 1 else ''}"


def _instead_of_function(name: str) -> str:
    if name in REDUCERS:
        return f"name what is reduced: {name}[i](...)"
    if name in _FUNCTION_NAMES:
        return f"write {_FUNCTION_NAMES[name]}"
    near = nearest(name, CALLABLE | SUGAR)
    return f"did you mean {near}?" if near else ""
