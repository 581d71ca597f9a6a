"""The grammar once more, for lark: strict LALR(1), so without ambiguity, and read independently.

`oracle(statement)` is the statement's structure as prefix text, or None where the grammar refuses
it. The tokens are split here too, by other means than the reader's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import LarkError
from lark.lexer import Lexer

from tensorc.ir.dtypes import BY_NAME

GRAMMAR = r"""
start: header | table | equation | monoid
header: "op" NAME "(" [params] ")" "->" outputs
outputs: params | "(" params ")"
params: param ("," param)* [","]
param: NAME ":" ["const"] DTYPE ["[" [dims] "]"] [format] ["in" arith ".." arith]
format: "as" NAME ["(" [exprs] ")"]
dims: dim ("," dim)* [","]
dim: NUMBER | NAME ["@" NAME] ["=" arith]
table: "const" param "=" rows
rows: "[" rows ("," rows)* [","] "]" | arith
equation: NAME [":" DTYPE] ["[" [subs] "]"] "=" expr ["init" expr]
monoid: "monoid" NAME "(" NAME "," NAME ")" "=" expr "unit" expr

expr: and_ ("or" and_)*
and_: not_ ("and" not_)*
not_: "not" not_ -> negation | cmp
cmp: bor (CMP bor)*
bor: bor "|" bxor | bxor
bxor: bxor "^" band | band
band: band "&" shift | shift
shift: shift SHIFT arith | arith
arith: arith PLUS term | term
term: term TIMES unary | unary
unary: PLUS unary | "~" unary -> inverse | power
power: atom ["**" unary]
atom: NAME -> name
    | (NUMBER | WORD) -> constant
    | "|" NAME "|" -> extent
    | "(" expr ")" -> bracketed
    | NAME "[" [subs] "]" -> read
    | NAME "(" [exprs] ")" -> call
    | DTYPE "(" expr ")" -> cast
    | NAME "(" DTYPE "," expr [","] ")" -> bitcast
    | NAME "[" subs "]" "(" expr ["where" expr] ")" -> reduction
    | NAME "[" items "," DTYPE [","] "]" "(" expr ["where" expr] ")" -> reduction
exprs: expr ("," expr)* [","]
subs: items [","]
items: sub | items "," sub
sub: expr | NAME "=" arith -> sized | NAME "in" arith ".." arith -> range
"""

_MARKS = {
    "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", ",": "COMMA", ":": "COLON", "=": "EQUAL",
    "->": "ARROW", "..": "TO", "@": "AT", "|": "BAR", "^": "CARET", "&": "AMP", "~": "TILDE",
    "**": "POW",
}  # fmt: skip
_CLASSES = {
    **dict.fromkeys(["<", "<=", ">", ">=", "==", "!="], "CMP"), "<<": "SHIFT", ">>": "SHIFT",
    "+": "PLUS", "-": "PLUS", "*": "TIMES", "/": "TIMES", "//": "TIMES", "%": "TIMES", **_MARKS,
}  # fmt: skip
_KEYWORDS = "op const monoid where and or not in as".split()
_FORBIDDEN = "if else for def scan repeat until".split()
_WORDS = "inf nan pi true false".split()
_SPLIT = re.compile(
    r"\s+|#.*|\d\w*(?:\.(?!\.)\w*)?(?:(?<=[ep])[-+]\w+)?|[A-Za-z_]\w*|"
    r"->|\*\*|//|<<|>>|<=|>=|==|!=|\.\.|."
)


class _Words(Lexer):
    """Tokens for lark. `init` and `unit` are words of the grammar where a value has just ended."""

    __future_interface__ = 2  # lark passes its states

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        depth, ended, extent = 0, False, False
        for text in _SPLIT.findall(lexer_state.text.text):
            if text[0] in " \t#":
                continue
            kind = _kind(text)
            if kind == "NAME" and text in ("init", "unit") and ended and not depth:
                kind = text.upper()
            depth += (text in "([") - (text in ")]")
            closes = kind == "BAR" and extent
            extent = kind == "BAR" and not ended or (extent and not closes)
            ended = closes or kind in ("NAME", "NUMBER", "WORD", "RPAR", "RSQB")
            yield Token(kind, text)


def _kind(text: str) -> str:
    if text in _KEYWORDS:
        return f"{text.upper()}_"
    if text in _WORDS:
        return "WORD"
    if text in BY_NAME:
        return "DTYPE"
    if text[0].isdigit():
        return "NUMBER"
    if text[0].isalpha() or text[0] == "_":
        return "BAD" if text in _FORBIDDEN else "NAME"
    return _CLASSES.get(text, "BAD")


def _grammar() -> str:
    names = {**_MARKS, **{word: f"{word.upper()}_" for word in _KEYWORDS}}
    names |= {"init": "INIT", "unit": "UNIT"}
    rules = re.sub(r'"([^"]+)"', lambda found: names[found[1]], GRAMMAR)
    terminals = {*names.values(), *_CLASSES.values(), "NAME", "NUMBER", "WORD", "DTYPE", "BAD"}
    return f"{rules}\n%declare {' '.join(sorted(terminals))}\n"


PARSER: Any = Lark(_grammar(), parser="lalr", lexer=_Words, strict=True, maybe_placeholders=True)


def oracle(statement: str) -> str | None:
    """The structure of one statement, or None if it is not in the language."""
    try:
        return _statement(PARSER.parse(statement).children[0])
    except (LarkError, _Misplaced):
        return None


class _Misplaced(Exception):
    """What the grammar reads, but only a left side or a reduction may hold, or the reverse."""


_NAMES = {
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "<<": "shl", ">>": "shr",
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod",
    "|": "bitor", "^": "bitxor", "&": "bitand",
}  # fmt: skip


def _statement(tree: Any) -> str:
    match tree.data:
        case "equation":
            name, dtype, left, body = _parts(tree, "NAME", "DTYPE", "subs", "expr")[:4]
            indices = [_bound(item) for item in _items(left)] if left else []
            return f"{name}{f': {dtype}' if dtype else ''}[{', '.join(indices)}] = {_text(body)}"
        case "table":
            return f"table {_rows(tree.children[-1])}"
        case kind:
            return str(kind)


def _items(tree: Any) -> list[Any]:
    """The entries between [ and ], from a left-recursive list."""
    if tree.data == "subs":
        return _items(_trees(tree)[0])
    *before, last = _trees(tree)
    return [*(_items(before[0]) if before else []), last]


def _parts(tree: Any, *kinds: str) -> list[Any]:
    """The first child of each kind, None where there is none."""
    found = {_kind_of(part): part for part in reversed(tree.children) if part is not None}
    return [found.get(kind) for kind in kinds]


def _kind_of(part: Any) -> str:
    return part.type if isinstance(part, Token) else str(part.data)


def _trees(tree: Any) -> list[Any]:
    return [part for part in tree.children if isinstance(part, Tree)]


def _given(tree: Any) -> list[Any]:
    return [part for part in tree.children if part is not None]


def _rows(tree: Any) -> str:
    rows = [part for part in _trees(tree) if part.data == "rows"]
    if not rows:
        return _text(_trees(tree)[0]) if _trees(tree) else _misplaced()
    return f"[{', '.join(map(_rows, rows))}]"


def _misplaced() -> str:
    raise _Misplaced


def _text(tree: Any) -> str:
    """The tree as prefix text, without the steps of the precedence ladder."""
    rest = parts = _trees(tree)
    match str(tree.data):
        case "expr" | "and_" if len(parts) > 1:
            return _called("or" if tree.data == "expr" else "and", parts)
        case "negation":
            return _called("not", rest)
        case "inverse":
            return _called("invert", rest)
        case "cmp" if len(parts) > 1:
            names = [_NAMES[str(part)] for part in tree.children if _kind_of(part) == "CMP"]
            return _called(names[0] if len(names) == 1 else f"chain<{' '.join(names)}>", parts)
        case "bor" | "bxor" | "band" | "shift" | "arith" | "term" if len(rest) == 2:
            return _called(_operator(tree), _flat(tree))
        case "unary" if _kind_of(tree.children[0]) == "PLUS":
            return _signed(str(tree.children[0]), rest[0])
        case "power" if len(rest) == 2:
            return _called("pow", rest)
        case "constant" | "name":
            return _constant(str(tree.children[0]))
        case "extent":
            return f"|{tree.children[1]}|"
        case "read":
            subscripts = _items(rest[0]) if rest else []
            return f"{tree.children[0]}[{', '.join(map(_subscript, subscripts))}]"
        case "call" if tree.children[0] != "bitcast":
            args = _trees(rest[0]) if rest else []
            return _called(str(tree.children[0]), args)
        case "cast":
            return f"{tree.children[0]}({_text(rest[0])})"
        case "bitcast" if tree.children[0] == "bitcast":
            return f"bits {_parts(tree, 'DTYPE')[0]}({_text(rest[0])})"
        case "reduction":
            return _reduction(tree)
        case "call" | "bitcast":
            return _misplaced()
        case _:
            return _text(rest[0])


def _called(name: str, args: list[Any]) -> str:
    return f"{name}({', '.join(map(_text, args))})"


def _operator(tree: Any) -> str:
    """The name of the operator between the two operands of a left-recursive rule."""
    return _NAMES[next(str(part) for part in tree.children if isinstance(part, Token))]


def _flat(tree: Any) -> list[Any]:
    """The operands, those of an equal sum or product on the left among them."""
    left, right = _trees(tree)
    same = left.data == tree.data and len(_trees(left)) == 2 and _operator(left) == _operator(tree)
    return [*_flat(left), right] if same and _operator(tree) in ("add", "mul") else [left, right]


def _signed(sign: str, operand: Any) -> str:
    text = _text(operand)
    if sign == "+":
        return text
    while operand.data in ("unary", "power") and len(_given(operand)) == 1:
        operand = _given(operand)[0]
    digits = str(operand.children[0]) if operand.data == "constant" else "x"
    if not digits[0].isdigit():
        return f"neg({text})"
    zero = text == "0" and not re.fullmatch(r"0+j?|0x0+", digits)
    return "-0" if zero else str(-Fraction(text))


def _constant(text: str) -> str:
    if not text[0].isdigit():
        return {"true": "1", "false": "0"}.get(text, text)
    if text.startswith("0x"):
        return str(Fraction(float.fromhex(text)) if "p" in text else int(text, 16))
    return str(Fraction(text.rstrip("j").rstrip(".")))


def _subscript(item: Any) -> str:
    return _text(_trees(item)[0]) if item.data == "sub" else _misplaced()


def _bound(item: Any) -> str:
    """An entry of a left side or a reduction: a name, perhaps with its size."""
    if item.data == "sized":
        return f"{item.children[0]}={_text(_trees(item)[0])}"
    if item.data == "range":
        return "range"
    words = _words(item)
    return str(words[0]) if [word.type for word in words] == ["NAME"] else _misplaced()


def _words(tree: Any) -> list[Token]:
    found: list[Token] = []
    for part in _given(tree):
        found += [part] if isinstance(part, Token) else _words(part)
    return found


def _reduction(tree: Any) -> str:
    items = [_bound(part) for part in _items(_trees(tree)[0])]
    dtype = _parts(tree, "DTYPE")[0]
    body, *where = [part for part in _trees(tree) if part.data == "expr"]
    bound = ", ".join([*items, *([str(dtype)] if dtype else [])])
    after = f" where {_text(where[0])}" if where else ""
    return f"{tree.children[0]}[{bound}]({_text(body)}{after})"
