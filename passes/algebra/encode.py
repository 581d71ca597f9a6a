"""Level 1 as terms: what equality saturation may look into, and leaves for all the rest.

One float type is taken as the program's: reals of it (and exact constants) become products, sums,
reductions and functions; everything else is a leaf that keeps its expression. Undeclared names are
opened up where they are read, so rules see through equations; what must stay a name is a leaf.
Bound indices that walk the same dimension get one name, so equal sums are equal terms.

What a mask protects stays behind it: a guarded expression with a subscript that is not a bare index
is one leaf together with its guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tensorc.ir import constants
from tensorc.ir.dtypes import F32, F64, DType
from tensorc.ir.functions import ANY, MAX, MIN, SUM
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    free_indices,
    value_type,
)
from tensorc.passes.algebra.encoded import LOG2E, Encoded
from tensorc.passes.algebra.functions import COMPARISONS, FUNCTIONS, arithmetic, function
from tensorc.passes.algebra.openings import alike, gathered_axis, openable, shifts
from tensorc.passes.algebra.read_ranges import ReadRanges
from tensorc.passes.algebra.renaming import Names, renamed
from tensorc.passes.algebra.terms import (
    YES,
    Choice,
    Gather,
    Leaf,
    Mul,
    Rounded,
    Some,
    Term,
    call,
    fold,
)

_FOLDS = {SUM: "Sum", MAX: "Max", MIN: "Min"}


def encode(program: Program, sizes: Mapping[str, int], behind_guards: bool = False) -> Encoded:
    """A canonical program as terms. `sizes`: the extents of this compile, which decide whether a
    constant is known to be positive. `behind_guards`: look also behind guards that keep reads in
    range, where terms are only compared. Unsuitable: leave the program alone."""
    kept: set[str] = set()
    while True:
        encoder = _Encoder(program, sizes, kept, behind_guards)
        made = encoder.encoded()
        still = _names_in_leaves(made) - {item.tensor.name for item, _ in made.roots}
        if not behind_guards:  # under other names it would be another term, computed twice
            still |= {name for name, forms in encoder.forms.items() if len(forms) > 1}
        if not still:
            return made
        kept |= still


def _names_in_leaves(made: Encoded) -> set[str]:
    """The program's own names that leaves read."""
    own = {item.tensor.name for item in made.program.equations}
    reads = (item for item in postorder(made.leaves.values()) if isinstance(item, Read))
    return {item.tensor.name for item in reads} & own


def _main_type(program: Program) -> DType:
    types = {value_type(equation.body) for equation in program.equations}
    return F64 if F64 in types and F32 not in types else F32


class _Encoder:
    def __init__(
        self, program: Program, sizes: Mapping[str, int], kept: set[str], behind_guards: bool
    ) -> None:
        self.behind_guards = behind_guards
        self.sizes = sizes
        self.made = Encoded(program, _main_type(program), extents=dict(program.extents))
        opened = (item for item in openable(program, self.made.dtype))
        self.opened = {item.tensor.name: item for item in opened if item.tensor.name not in kept}
        self.shifts = shifts(program)
        self.alike = alike(program)
        self.memo: dict[tuple[Expr, tuple[tuple[str, str], ...]], Term] = {}
        self.ranges = ReadRanges(program)
        self.forms: dict[
            str, set[tuple[str, ...]]
        ] = {}  # index names that opened names are read at
        self.tables = {item.tensor.name: item for item in program.tables}
        named = (*program.parameters, *program.outputs, *program.equations, *program.tables)
        self.tensors = {item.tensor.name for item in named}
        self.rows: dict[str, tuple[Leaf, Polynomial]] = {}  # subscript, extent of gathered indices

    def encoded(self) -> Encoded:
        """Every equation that is not opened up where it is read."""
        for equation in self.made.program.equations:
            if equation.tensor.name not in self.opened:
                names = {index: index for index in equation.indices}
                body = equation.body.arg if isinstance(equation.body, Round) else equation.body
                self.made.roots.append((equation, self.term(body, names)))
        return self.made

    def opened_body(self, body: Expr, names: Names) -> Term:
        if isinstance(body, Round):
            return Rounded(body.dtype.name, self.term(body.arg, names))
        return self.term(body, names)

    def term(self, expr: Expr, names: Names) -> Term:
        """The term of an expression whose indices are called by `names`."""
        used = {name: names[name] for name in free_indices(expr)}
        key = (expr, tuple(sorted(used.items())))
        if key not in self.memo:
            self.memo[key] = self.encode(expr, used)
        return self.memo[key]

    def encode(self, expr: Expr, names: Names) -> Term:
        if constants.closed(expr) and (value_type(expr).weak or isinstance(expr, Cast)):
            return self.constant(expr)
        if value_type(expr) is not self.made.dtype:
            return self.leaf(expr, names)
        match expr:
            case Read(tensor, _) if tensor.name in self.opened:
                return self.opened_read(expr, names)
            case Read():
                return self.gathered(expr, names)
            case Apply():
                return self.applied(expr, names)
            case Select(condition, yes, no) if not self.protected(yes, no):
                args = (self.operand(arg, names) for arg in (yes, no))
                return Choice(self.condition(condition, names), *args)
            case Cast(dtype, arg) if dtype is self.made.dtype is value_type(arg):
                return self.term(arg, names)
            case Reduce():
                return self.reduced(expr, names)
            case Round(dtype, arg) if self.behind_guards and value_type(arg) is self.made.dtype:
                return Rounded(dtype.name, self.term(arg, names))
            case _:
                return self.leaf(expr, names)

    def condition(self, expr: Expr, names: Names) -> Term:
        """A comparison of terms, whether a condition holds anywhere; any other is a leaf."""
        if isinstance(expr, Reduce) and expr.reducer is ANY and expr.where is None:
            inner = {**names, **self.bound(expr, names)}
            indices = sorted(inner[index] for index in expr.indices)
            return Some(tuple(indices), self.condition(expr.body, inner))
        if isinstance(expr, Apply) and expr.function.name in COMPARISONS:
            types = [value_type(arg) for arg in expr.args]
            if self.made.dtype in types and all(t is self.made.dtype or t.weak for t in types):
                args = (self.operand(arg, names) for arg in expr.args)
                return call(expr.function.name, *args)
        return self.leaf(expr, names)

    def operand(self, expr: Expr, names: Names) -> Term:
        """An operand that meets the program's type."""
        dtype = value_type(expr)
        if dtype is self.made.dtype or constants.closed(expr) and dtype.weak:
            return self.term(expr, names)
        return self.leaf(Cast(self.made.dtype, expr), names)

    def applied(self, expr: Apply, names: Names) -> Term:
        args = expr.args
        match expr.function.name:
            case "max" if expr in self.shifts:
                return call("shift", self.operand(args[0], names))
            case "add" | "mul" | "sub" | "neg" | "div" | "max" | "min" as name:
                return arithmetic(name, [self.operand(arg, names) for arg in args])
            case name if len(args) <= 2 and name in FUNCTIONS:
                return function(name, [self.operand(arg, names) for arg in args])
            case _:
                return self.leaf(expr, names)

    def protected(self, *exprs: Expr) -> bool:
        """Whether a guard may keep a read in these from leaving its tensor."""
        reads = (item for item in postorder(exprs) if isinstance(item, Read))
        return not self.behind_guards and not all(map(self.ranges.in_range, reads))

    def reduced(self, expr: Reduce, names: Names) -> Term:
        """A sum, maximum or minimum in the program's type; any other reduction is a leaf."""
        kind, own = _FOLDS.get(expr.reducer), self.made.dtype
        if kind is None or value_type(expr.body) is not own or expr.dtype not in (None, own):
            return self.leaf(expr, names)
        if expr.where is not None and self.protected(expr.body):
            return self.leaf(expr, names)
        inner = {**names, **self.bound(expr, names)}
        where = YES if expr.where is None else self.condition(expr.where, inner)
        body = self.term(expr.body, inner)
        return fold(kind, [inner[index] for index in expr.indices], body, where)

    def bound(self, expr: Reduce, names: Names) -> Names:
        """One name for the indices that walk one dimension, where nothing is captured."""
        inside = free_indices(expr.body)
        if expr.where is not None:
            inside |= free_indices(expr.where)
        taken = {names[index] for index in inside - set(expr.indices)}
        taken |= self.sums_inside(expr) if expr.reducer is SUM else set()
        chosen: dict[str, str] = {}
        for index in expr.indices:
            free = [name for name in self.alike[index] if name not in taken]
            chosen[index] = free[0] if free else self.fresh(index)
            taken.add(chosen[index])
        return chosen

    def sums_inside(self, expr: Reduce) -> set[str]:
        """Names that sums among the factors of this one bind: those sums may be opened."""
        found: set[str] = set()
        waiting: list[Expr] = [expr.body]
        while waiting:
            match waiting.pop():
                case Apply(function, args) if function.name in ("mul", "div", "neg"):
                    waiting.extend(args[:1] if function.name == "div" else args)
                case Read(tensor, _) if tensor.name in self.opened:
                    body = self.opened[tensor.name].body
                    waiting.append(body.arg if isinstance(body, Round) else body)
                case Reduce(reducer, indices, body, _, _) if reducer is SUM:
                    found |= {self.alike[index][0] for index in indices} | set(indices)
                    waiting.append(body)
                case _:
                    pass
        return found

    def fresh(self, index: str) -> str:
        number = 2
        while f"{index}_{number}" in self.made.extents:
            number += 1
        name = f"{index}_{number}"
        self.made.extents[name] = self.made.extents[index]
        self.alike[name] = self.alike[index]
        self.alike[index].append(name)
        return name

    def gathered(self, expr: Read, names: Names) -> Term:
        """A row picked by data is the row, gathered; any other read is a leaf."""
        axis = gathered_axis(expr)
        if axis is None:
            return self.leaf(expr, names)
        at = self.leaf(expr.subscripts[axis], names)
        index = self.gathered_index(expr, axis, at)
        self.made.gathers.setdefault(index, []).append((expr, axis))
        subscripts = list(expr.subscripts)
        subscripts[axis] = Position(index)
        row = Read(expr.tensor, tuple(subscripts))
        return Gather(index, at, self.leaf(row, {**names, index: index}))

    def opened_read(self, expr: Read, names: Names) -> Term:
        """The body of a name under the indices that it is read with."""
        equation = self.opened[expr.tensor.name]
        inner = {
            index: names[sub.index]
            for index, sub in zip(equation.indices, expr.subscripts, strict=True)
            if isinstance(sub, Position)
        }
        axis = gathered_axis(expr)
        if axis is None:
            form = tuple(inner[index] for index in equation.indices)
            self.forms.setdefault(expr.tensor.name, set()).add(form)
            body = self.opened_body(equation.body, inner)
            self.made.names.setdefault(body, expr.tensor.name)
            return body
        own = equation.indices[axis]
        free = [name for name in self.alike[own] if name not in inner.values()]
        index = free[0] if free else self.fresh(own)
        at = self.leaf(expr.subscripts[axis], names)
        self.note_permutation(at, index)
        self.made.gathers.setdefault(index, []).append((expr, axis))
        return Gather(index, at, self.opened_body(equation.body, {**inner, own: index}))

    def gathered_index(self, expr: Read, axis: int, at: Leaf) -> str:
        """The index of the rows: one for each subscript and extent."""
        size = expr.tensor.shape[axis]
        name = f"{expr.tensor.name}_{axis}"
        for known, where in self.rows.items():
            if where == (at, size):
                return known
        while name in self.made.extents or name in self.tensors:
            name += "_"
        self.made.extents[name] = size
        self.rows[name] = (at, size)
        self.note_permutation(at, name)
        return name

    def note_permutation(self, at: Leaf, index: str) -> None:
        """Tell the e-graph if `at` walks every position of `index` once."""
        permuted = self.permuted(self.made.leaves[at.name])
        if permuted is not None and self.made.extents[permuted] is self.made.extents[index]:
            self.made.permutations.add((at.name, permuted))
            self.made.permuted.add(index)

    def permuted(self, at: Expr) -> str | None:
        """The index that a read of a constant table permutes, or None."""
        if not isinstance(at, Read) or at.tensor.name not in self.tables or len(at.subscripts) != 1:
            return None
        values = [constants.fold(value, {}) for value in self.tables[at.tensor.name].values]
        (subscript,) = at.subscripts
        whole = set(values) == set(range(len(values)))
        return subscript.index if whole and isinstance(subscript, Position) else None

    def constant(self, expr: Expr) -> Term:
        """An exact number, or a leaf for one that is irrational or depends on sizes.

        A literal is rounded where it meets the program's type, said by a cast or not.
        """
        if isinstance(expr, Cast) and expr.dtype is self.made.dtype and value_type(expr.arg).weak:
            return self.constant(expr.arg)
        number = constants.fold(expr, {})
        if isinstance(number, Fraction) and number.denominator < 1 << 64:
            return Mul(number, ())
        match expr:
            case Apply(function, (Literal(value, _),)) if function.name == "log" and value == 2:
                return call("recip", LOG2E)
            case Apply(function, args) if function.name in ("mul", "div", "neg"):
                return arithmetic(function.name, [self.constant(arg) for arg in args])
            case _:
                return self.size_constant(expr)

    def size_constant(self, expr: Expr) -> Term:
        """A leaf for a constant that is irrational or depends on sizes."""
        term = self.leaf(expr, {})
        value = constants.fold(expr, self.sizes)
        if isinstance(value, Fraction) and value > 0:
            self.made.constants.add(term.name)
        return term

    def leaf(self, expr: Expr, names: Names) -> Leaf:
        """A leaf that stands for `expr` under the term's index names."""
        here = renamed(expr, names, self.made.reads)
        text = show(here).replace('"', "'")
        name = f"?{text}" if value_type(here).name == "bool" else text
        while self.made.leaves.setdefault(name, here) is not here:
            name += "'"
        return Leaf(name)
