"""What the roles of a level-3 kernel compute, in CUDA C++: bodies of operations, statements of the
level-2 kernel on the lanes of a role, in arrays that hold the role's values.

An operation of threads that a role does at several places is a function of the iteration, defined
once for each block of the grid; compilers put it in place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from tensorc.codegen import cuda_simt as simt
from tensorc.codegen import cuda_stores as stores
from tensorc.codegen.cuda_alike import barrier, plain, steps
from tensorc.codegen.cuda_fragments import dimensions
from tensorc.codegen.cuda_functions import constant
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_partial import partial_sums
from tensorc.codegen.cuda_rings import Rings, iteration
from tensorc.codegen.cuda_scope import Scope, value_kind
from tensorc.codegen.cuda_wgmma import product
from tensorc.ir import channel
from tensorc.ir.channel import Perform, Role
from tensorc.ir.dtypes import F32, value_of
from tensorc.ir.print_channel import print_statement
from tensorc.ir.print_tile import line as shown
from tensorc.ir.tensor import Value
from tensorc.ir.tile import Carry, Kernel, Let, Loop, Operand, Store, Tile
from tensorc.ir.walk_tile import reads, statements

GROUP = 128  # threads of a warp group
FUNCTION = 3  # lines from which on what is done twice is a function
_LOOPS = ("i", "j", "reg")


class Operations:
    """The state of emitting the operations of one kernel, of one team of roles at a time."""

    def __init__(
        self, scope: Scope, rings: Rings, made: channel.Kernel, kernel: Kernel, loop: Loop
    ) -> None:
        self.scope, self.rings, self.made, self.loop = scope, rings, made, loop
        lets = (item for item in statements(kernel.body) if isinstance(item, Let))
        stored = (item for item in statements(kernel.body) if isinstance(item, Store))
        self.lets = {item.tile.name: item for item in lets}
        self.puts = {f"store.{item.tensor.name}": item for item in stored}
        self.after = frozenset(statements(kernel.body)) - frozenset(statements(loop.body))
        self.bodies = {body.operation: body for body in made.bodies}
        self.whole = dict(scope.tiles)
        self.holds = rings.holds
        self.makers = {
            result.name: item.call.operation
            for role in made.roles
            for item in channel.statements(role)
            if isinstance(item, Perform) and item.call.operation in self.bodies
            for result in item.results
        }
        self.parts = partial_sums(loop)
        self.start(made.roles[:1])

    def start(self, team: tuple[Role, ...]) -> None:
        """From here on operations are those of this team."""
        self.team, self.step = team, steps(self.made, team)
        self.whole_sums: set[str] = set()  # of sums in parts, those that have been added up
        self.flying: list[str] = []  # results in flight, oldest first
        self.values: dict[str, str] = {}  # the arrays of the team's values
        self.busy = False  # whether threads have worked since the last end of a basic block
        self.number = "0"  # the iteration of the current operation
        self.functions: dict[str, str] = {}  # of operations, their names

    def cut(self, tile: Tile, windows: Mapping[str, channel.Window]) -> Tile:
        """A register tile on the lanes of one role."""
        if tile.space != "register":
            return tile
        sizes = tuple(
            windows[a].count if a in windows else n
            for a, n in zip(tile.axes, tile.sizes, strict=True)
        )
        return replace(tile, sizes=sizes)

    def variables(self) -> Iterator[str]:
        """The arrays of the team's values."""
        made: dict[str, str] = {}
        declared: dict[str, list[str]] = {}
        for item in channel.statements(self.team[0]):
            if not isinstance(item, Perform):
                continue
            for result in item.results:
                tile = self.cut(self.whole[self.holds[result.name][0]], self.windows_of(item))
                if result.into not in made:
                    shape = dimensions(tile, self.scope.placement) if tile.axes else ()
                    name = self.scope.names.derived("v", self.plain(result.into))
                    made[result.into] = name
                    kind = "u32" if isinstance(tile.layout, Operand) else value_kind(tile)
                    text = name + "".join(f"[{n}]" for n in shape)
                    declared.setdefault(kind, []).append(text)
                self.values[result.name] = made[result.into]
        for kind, texts in declared.items():
            for at in range(0, len(texts), 5):
                yield f"{kind} {', '.join(texts[at : at + 5])};"

    def windows_of(self, item: Perform) -> dict[str, channel.Window]:
        """The lanes that an operation works on; those of a start value are its carry's."""
        made = item.call.operation
        if made == channel.START:
            made = self.makers[item.results[0].name]
        if made not in self.bodies:
            raise NotImplementedError(f"values that pass between roles: {print_statement(item)}")
        return {window.index: window for window in self.bodies[made].windows}

    def definitions(self) -> Iterator[str]:
        """The functions of what the team does more than once, and everywhere on the same values."""
        found: dict[str, list[Perform]] = {}
        for item in channel.statements(self.team[0]):
            if isinstance(item, Perform):
                found.setdefault(item.call.operation, []).append(item)
        for name, items in found.items():
            if len(items) > 1 and self.computes(name) and len(set(map(_values, items))) == 1:
                lines = list(self.body(items[0], "at"))
                if len(lines) >= FUNCTION:
                    own = self.scope.names.derived("do", self.plain(name))
                    self.functions[name] = own
                    yield f"const auto {own} = [&](int at) {{"
                    yield from ("  " + line for line in lines)
                    yield "};"

    def computes(self, name: str) -> bool:
        """Whether an operation is work of threads on values in registers."""
        lets = [self.lets.get(part) for part in self.bodies[name].statements] if (
            name in self.bodies) else [None]  # fmt: skip
        return all(
            let is not None and let.tile.space == "register" and not let.by.repeat for let in lets
        )

    def plain(self, text: str) -> str:
        """A text of the schedule as it reads for every role of the team."""
        return plain(text, self.team[0]) if len(self.team) > 1 else text

    def perform(self, item: Perform) -> Iterator[str]:
        """An operation in place, or the call of its function."""
        name, number = item.call.operation, iteration(item.call.at)
        if name in self.functions:
            yield f"{self.functions[name]}({number});"
        else:
            yield from self.body(item, number)
        self.busy = self.busy or (name != channel.START and self.computes(name))

    def body(self, item: Perform, number: str) -> Iterator[str]:
        """What an operation does in an iteration."""
        windows = self.windows_of(item)
        self.scope.tiles = {n: self.cut(t, windows) for n, t in self.whole.items()}
        part = Index.of("member", len(self.team))
        self.scope.windows = {n: part * self.step.get(n, 0) + w.first for n, w in windows.items()}
        if item.call.operation == channel.START:
            yield from self.started(item)
            return
        for read in item.call.reads:
            for tile in self.holds.get(read.name, ()):
                if read.name in self.values:
                    self.scope.variables[tile] = self.values[read.name]
                    self.scope.variables[tile.removesuffix("'")] = self.values[read.name]
        self.number = number
        self.scope.e.base[self.loop.index] = f"({self.rings.base(number)})"
        names = self.bodies[item.call.operation].statements
        copies: list[tuple[str, str, Tile]] = []
        for place, statement in enumerate(names):
            yield from self.added_up(statement)
            if statement in self.puts:
                yield from self.store(self.puts[statement], windows)
                continue
            let = replace(self.lets[statement], tile=self.scope.tiles[statement])
            if let.tile.space == "shared":
                yield from self.staged(let)
                continue
            held = [self.values[r.name] for r in item.results if self.holds[r.name][0] == statement]
            target = yield from self.target(let, held, names[place + 1 :])
            copies += [(other, target, let.tile) for other in held if other != target]
            if let.by.instruction.startswith("wgmma"):
                self.flying += [(yield from product(self.rings, let, item, target, self.whole))]
            else:
                yield from self.simple(let, target)
            self.scope.variables[statement] = target
        for other, source, tile in copies:
            shape = dimensions(tile, self.scope.placement) if tile.axes else ()
            yield f"{_over(shape)}{_each(other, shape)} = {_each(source, shape)};"

    def landed(self, pending: int) -> Iterator[str]:
        """The results that are there when `pending` groups of products are still under way."""
        done = self.flying[: len(self.flying) - pending]
        self.flying = self.flying[len(self.flying) - pending :]
        for name in dict.fromkeys(done):
            if name not in self.flying:
                yield f"tc_tie({name});"

    def added_up(self, statement: str) -> Iterator[str]:
        """The sums of which threads have parts, before what reads them after the loop."""
        item = self.puts.get(statement) or self.lets[statement]
        for name in sorted(self.parts & reads(item) - self.whole_sums):
            if item in self.after:
                self.whole_sums.add(name)
                array = self.scope.variables[name]
                (count, _) = dimensions(self.scope.tiles[name], self.scope.placement)
                yield f"TCT_FOR(i, {count}) tct_quad_sum({array}[i]);"

    def target(
        self, let: Let, held: Sequence[str], later: Sequence[str]
    ) -> Generator[str, None, str]:
        """The array that a statement writes: one of its values', unless what lies there is read by
        a later statement of the same operation; else that of a dead tile, or a new one."""
        needed = {n for name in later if name in self.lets for n in reads(self.lets[name])}
        needed |= {n for name in later if name in self.puts for n in reads(self.puts[name])}
        known = self.scope.variables
        busy = {known[n] for n in needed if n in known and n != let.tile.name}
        for name in held:
            if name not in busy:
                return name
        if not held and let.into is not None and known.get(let.into.name) not in (None, *busy):
            return known[let.into.name]
        name = self.scope.names.derived("v", let.tile.name)
        shape = dimensions(let.tile, self.scope.placement) if let.tile.axes else ()
        kind = "u32" if isinstance(let.tile.layout, Operand) else value_kind(let.tile)
        yield f"{kind} {name}{''.join(f'[{n}]' for n in shape)};"
        return name

    def simple(self, let: Let, name: str) -> Iterator[str]:
        """A statement of the threads, into this array."""
        self.scope.variables["="] = name
        if let.op is not None:
            carried = let.tile.name.removesuffix("'") in self.parts
            yield from simt.reduction(self.scope, let, across=not carried)
        elif isinstance(let.tile.layout, Operand):
            yield from simt.operand(self.scope, let)
        else:
            yield from simt.pointwise(self.scope, let, self.full(let))
        del self.scope.variables["="]

    def full(self, let: Let) -> str:
        """The condition of blocks in which a guard always holds."""
        tests: list[str] = []
        for index in let.edge:
            base = self.scope.e.base[index]
            if index == self.loop.index:
                place = self.rings.number(self.number)
                tests += [f"begun <= {place}"] if self.loop.full[0].constant != 0 else []
                tests.append(f"{place} < full")
            elif not self.scope.whole(index):
                size = self.scope.block.get(index, 0)
                tests.append(f"{base} + {size} <= {self.scope.parameters.extent(index)}")
        return " && ".join(tests)

    def started(self, item: Perform) -> Iterator[str]:
        """The start values of carries."""
        carries = {carry.tile.name + "'": carry for carry in self.loop.carries}
        for result in item.results:
            carry: Carry = carries[self.holds[result.name][0]]
            tile = self.scope.tiles[carry.tile.name]
            shape = dimensions(tile, self.scope.placement) if tile.axes else ()
            kind = value_of(tile.dtype)
            match carry.start:
                case str():
                    value = constant(-(2**24 - 1) * 2**104, F32)
                case Tile():
                    raise NotImplementedError("a carry that starts from a tile")
                case expr:
                    value = self.scope.e.value(expr, kind)
            yield f"{_over(shape)}{_each(self.values[result.name], shape)} = {value};"
            if len(shape) == 3:  # or it would be written behind the fence of its first product
                yield f"tc_tie({_flat(self.values[result.name], shape)});"

    def staged(self, let: Let) -> Iterator[str]:
        """A tile of shared memory after the loop: written by the role's threads."""
        first = 1 + len(self.made.tokens)
        numbers = [first + self.made.roles.index(role) for role in self.team]
        meet = barrier("sync", numbers, GROUP)
        yield f"{meet}  // nobody still reads this memory"
        yield from simt.to_shared(self.scope, let)
        yield "tc_fence_proxy_async();"
        yield meet

    def store(self, item: Store, windows: Mapping[str, channel.Window]) -> Iterator[str]:
        """A store of fragments, or of a tile in shared memory."""
        yield f"// {shown(item)}"
        if item.by.instruction != "tma.store":
            yield from stores.store(self.scope, item)
            return
        assert isinstance(item.value, Value)
        yield from self.rings.store(item, self.whole[item.value.tile], windows)


def _values(item: Perform) -> tuple[object, ...]:
    """What an operation reads and makes, wherever it is done."""
    made = ((result.name, result.into) for result in item.results)
    return tuple((r.name, r.at == item.call.at) for r in item.call.reads), tuple(made)


def _over(shape: Sequence[int]) -> str:
    return "".join(f"TCT_FOR({v}, {n}) " for v, n in zip(_LOOPS, shape, strict=False))


def _flat(name: str, shape: Sequence[int]) -> str:
    """Accumulators of 64 rows as one array."""
    return f"(float(&)[{shape[1] * 4}]){name}[0]"


def _each(name: str, shape: Sequence[int]) -> str:
    return name + "".join(f"[{v}]" for v, _ in zip(_LOOPS, shape, strict=False))
