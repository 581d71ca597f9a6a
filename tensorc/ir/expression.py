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

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple, NoReturn

from tensorc.errors import NotationError
from tensorc.ir.cursor import Cursor, shown
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BY_NAME, REAL, DType
from tensorc.ir.names import KEYWORDS, function_fault, reducer_fault
from tensorc.ir.numbers import WORDS, read_number
from tensorc.ir.source import Diagnostic, Source
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

# Words that are misplaced here rather than misused as names.
_OPERATORS = frozenset({"and", "or", "not", "where", "if", "else", "for"})


class Item(NamedTuple):
    """One entry between [ and ]: a subscript (`value`), a size (`value` of `name`), a planned
    range (`name` alone), or the accumulator type that may stand last (`dtype`)."""

    first: Token
    value: Syntax | None = None
    name: Token | None = None
    dtype: DType | None = None


class Parser(Cursor):
    """Reads expressions; the grammars of files and of level 2 are built on it.

    `functions` are further names that may be called.
    """

    def __init__(
        self, source: Source, tokens: Sequence[Token], functions: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(source, tokens)
        self._functions = functions
        self._brackets = self._plain = self._nested = self._terms = 0

    # Calls are kept shallow: at most three frames for each open bracket.

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
        if self._kept is None and name.text not in self._functions:
            self._kept = function_fault(name.text, len(args), self.where(name))
        return Call(name.text, tuple(args), self.since(name))

    def _read(self) -> Access | Reduction:
        name = self.next()
        items: list[Item] = []
        self.open("[")
        while not self.at("]"):
            first = self.token
            items.append(self.special_item() or Item(first, self.expression()))
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
            return Item(token, dtype=self.dtype())
        if token.kind != "name" or after not in ("=", "in"):
            return None
        name = self.name()
        if self.next().text == "=":
            return Item(token, self.expression(ARITH), name)
        self._range(name)
        return Item(token, name=name)

    def _range(self, name: Token) -> None:
        """lower .. upper, after `name in`: a planned form."""
        self.expression(ARITH)
        self.expect("..", "an operator or ..")
        self.expression(ARITH)
        core = f"write where a <= {name.text} and {name.text} < b"
        self.planned(name, f"{name.text} in a..b", core)

    def _subscripts(self, items: list[Item]) -> tuple[Syntax, ...]:
        """Items as subscripts: expressions only."""
        for item in items:
            if item.dtype is not None:
                self.unexpected("(", do=f"{item.dtype} is reserved as a name")
            if item.name is not None:
                self._misplaced(item, "a subscript")
        return tuple(item.value for item in items if item.value is not None)

    def _misplaced(self, item: Item, what: str) -> NoReturn:
        """Raise E108 for an entry that does not fit where it stands."""
        if item.value is None or item.name is not None:
            token = f"{item.first.text} with a size" if item.name else item.first.text
            self.fail("E108", item.first, what=what, token=token)
        span = item.value.span
        raise NotationError([fault("E108", span, what=what, token=shown(span))])

    def _reduction(self, reducer: Token, items: list[Item]) -> Reduction:
        dtype = items[-1].dtype if items else None
        bindings = self.bindings(items[:-1] if dtype else items)
        if not items or (dtype and len(items) == 1):
            self.fail("E115", reducer, reducer=reducer.text, prefix="")
        self._kept = self._kept or reducer_fault(reducer.text, self.where(reducer))
        self.open("(")
        body = self.expression()
        where = self.expression() if self.accept("where") else None
        self.close(")", "an operator, where or )" if where is None else "an operator or )")
        return Reduction(reducer.text, bindings, dtype, body, where, self.since(reducer))

    def bindings(self, items: list[Item]) -> tuple[Binding, ...]:
        """Items as the indices of a left side or a reduction: `i` or `i=4`."""
        found: list[Binding] = []
        for item in items:
            if item.name is not None:
                found.append(Binding(item.name.text, item.value, self.where(item.name)))
            elif isinstance(item.value, Name) and item.first.text == item.value.name:
                found.append(Binding(item.value.name, None, item.value.span))
            else:
                self._misplaced(item, "the name of an index")
        return tuple(found)


def _negative(literal: Literal) -> Literal:
    assert isinstance(literal.value, Fraction)
    if literal.value == 0 and literal.dtype is REAL:
        return Literal("-0", REAL)
    return Literal(-literal.value, literal.dtype)
