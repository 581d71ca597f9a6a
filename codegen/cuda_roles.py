"""Level 3 to CUDA C++ for sm_90a: warp groups with roles that meet in rings of shared memory.

What a role does, and when, is the channel program's; what an operation computes, on which lanes,
is said by its body, statements of the level-2 kernel. Every role has whole warp groups, since
registers move between warp groups; a role of one warp uses the first thread of its group. Elements
of rings are counted over the whole kernel: element k lies in slot k % depth, in phase k / depth.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tensorc.codegen import cuda_simt as simt
from tensorc.codegen import cuda_stores as stores
from tensorc.codegen.cuda_alike import plain, steps, teams
from tensorc.codegen.cuda_fragments import dimensions
from tensorc.codegen.cuda_functions import constant
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_partial import partial_sums
from tensorc.codegen.cuda_rings import Rings, iteration
from tensorc.codegen.cuda_scope import Scope, value_kind
from tensorc.codegen.cuda_wgmma import product
from tensorc.ir import channel
from tensorc.ir.channel import At, Done, Get, Pass, Perform, Put, Role, Turn, Wait, When
from tensorc.ir.dtypes import F32, value_of
from tensorc.ir.launch import Map, Strides
from tensorc.ir.placement import Pipelined, Placement
from tensorc.ir.print_channel import print_statement
from tensorc.ir.print_tile import line as shown
from tensorc.ir.tensor import Value
from tensorc.ir.tile import (
    Block,
    Carry,
    Let,
    Loop,
    Operand,
    Store,
    Tile,
    TileProgram,
)
from tensorc.ir.walk_tile import reads, statements

GROUP = 128  # threads of a warp group
SPAN = 128  # bytes of a panel's rows, the only swizzle of matrix operands here
LAUNCHED = 65536  # registers of a multiprocessor
STEP, MOST = 8, 248  # of registers that a warp group asks for
_LOOPS = ("i", "j", "reg")


class Roles:
    """The state of emitting one kernel."""

    def __init__(
        self, given: Pipelined, number: int, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides], fast: bool,
    ) -> None:  # fmt: skip
        kernel, made = given.kernel, given.roles
        self.kernel, self.made, self.symbol = kernel, made, f"kernel_{number}"
        self.said = given.said
        self.scope = Scope(kernel, program, static, strides, Placement(4, 1, 2), fast)
        self.parameters = self.scope.parameters
        (self.loop,) = (item for item in kernel.body if isinstance(item, Loop))
        self.lets = {
            item.tile.name: item for item in statements(kernel.body) if isinstance(item, Let)
        }
        self.puts = {f"store.{s.tensor.name}": s for s in statements(kernel.body)
                     if isinstance(s, Store)}  # fmt: skip
        self.after = frozenset(statements(kernel.body)) - frozenset(statements(self.loop.body))
        self.bodies = {body.operation: body for body in made.bodies}
        self.whole = dict(self.scope.tiles)
        self.rings = Rings(self.scope, made, self.loop)
        self.holds = self.rings.holds
        self.makers = {
            result.name: item.call.operation
            for role in made.roles
            for item in channel.statements(role)
            if isinstance(item, Perform) and item.call.operation in self.bodies
            for result in item.results
        }
        self.parts = partial_sums(self.loop)
        self.whole_sums: set[str] = set()  # of them, those that the current role has added up
        self.flying: list[str] = []  # results in flight, oldest first
        self.values: dict[str, str] = {}  # the arrays of the current role's values
        self.teams = teams(made)
        self.team, self.step = self.teams[0], dict[str, int]()  # that are emitted
        self.got: Get | None = None  # the element that came last
        self.busy = False  # whether threads have worked since the last end of a basic block
        self.at = At("tile", 0)  # the iteration of the current operation

    @property
    def maps(self) -> tuple[Map, ...]:
        """The tensor maps that the kernel takes, in order."""
        return tuple(self.rings.maps)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.rings.total

    @property
    def threads(self) -> int:
        """Threads of a block: a warp group for each role."""
        return GROUP * len(self.made.roles)

    # --- text -----------------------------------------------------------------------------------

    def text(self) -> str:
        """The kernel as C++."""
        roles = [list(self.role(team)) for team in self.teams]
        heads = [f"const bool WIDE = {' && '.join(self.scope.aligned.values())};"] if (
            self.scope.aligned) else []  # fmt: skip
        maps = [f"TC_GRID_CONST CUtensorMap {name}" for name in self.rings.maps.values()]
        inner = list(self.start())
        params = ", ".join([*maps, *filter(None, [self.parameters.declared()])])
        lines = [
            f"// {self.kernel.name}",
            *(f"// {line}" for line in self.said),
            f"TC_KERNEL({self.threads}, 1) {self.symbol}({params}) {{",
        ]
        lines += ["  " + line for line in (*inner, *heads)]
        ends = list(accumulate(len(team) for team in self.teams))
        for number, (body, end) in enumerate(zip(roles, ends, strict=True)):
            test = "else" if end == len(self.made.roles) else f"else if (group < {end})"
            lines.append("  " + (f"}} {test} {{" if number else f"if (group < {end}) {{"))
            lines += ["    " + line for line in body]
        return "\n".join([*lines, "  }", "}", ""])

    def start(self) -> Iterator[str]:
        """Where this thread is, memory, barriers, and the blocks of the grid."""
        yield "TC_DYN_SMEM(smem);"
        yield "const u32 shared = tc_smem_u32(smem);"
        yield "const int warp = tc_warp_uniform(threadIdx.x / 32), lane = threadIdx.x % 32;"
        yield "const int group = warp / 4, warp_m = warp % 4;"
        yield "// from a shuffle, or ptxas would compute it again in every iteration"
        yield "const int thread = tc_shfl_idx(threadIdx.x % 128, lane);"
        yield from self.rings.start()
        for block in self.kernel.grid:
            size = self.parameters.extent(block.index)
            more = size if block.size == 1 else f"({size} + {block.size - 1}) / {block.size}"
            yield f"const u32 {self.count(block)} = (u32)({more});"
        counts = [self.count(block) for block in self.kernel.grid] or ["1"]
        yield f"const u32 blocks = {' * '.join(counts)};"

    def count(self, block: Block) -> str:
        """How many blocks an index has; all together fewer than 2^31, which a launch checks."""
        return f"blocks_{block.index}"

    def role(self, team: tuple[Role, ...]) -> Iterator[str]:
        """The program of a role, or of a team, over all blocks of the grid that this thread block
        takes."""
        role, kept = team[0], dict(self.scope.variables)
        self.team = team
        self.step = steps(self.made, team)
        self.flying, self.whole_sums = [], set()
        yield f"// ---- role {', '.join(item.name for item in team)} ----"
        if len(team) > 1:
            yield f"const int member = group - {self.made.roles.index(role)};"
        yield f"tc_note_role({self.each([_quoted(item.name) for item in team])});"
        yield from self.registers()
        yield from self.variables(role)
        single = role.warps == 1
        inner = list(self.tokens("before"))
        inner += ["u32 before = 0, round = 0;"]
        inner += ["for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {"]
        inner += ["  " + line for line in (*self.grid(), *self.block(role))]
        inner += ["  before += tiles;", "}", *self.tokens("after")]
        if single:
            yield "if (thread == 0) {"
            yield from ("  " + line for line in inner)
            yield "}"
        else:
            yield from inner
        self.scope.variables = kept

    def registers(self) -> Iterator[str]:
        """Registers move between warp groups where one needs more than its share; those that need
        more get all that the others leave."""
        share = LAUNCHED // self.threads // STEP * STEP
        needed = max(item.registers for item in self.team)
        needs = [max(item.registers for item in team) for team in self.teams for _ in team]
        if max(needs) <= share:
            return
        left = share * len(needs) - sum(need for need in needs if need <= share)
        most = left // sum(need > share for need in needs) // STEP * STEP
        if needed > share:
            yield f"tc_setmaxnreg_inc<{min(most, MOST)}>();"
        else:
            yield f"tc_setmaxnreg_dec<{needed}>();"

    def tokens(self, when: str) -> Iterator[str]:
        """Turns that are passed before the first block and taken after the last."""
        for token in self.made.tokens:
            giver = next((r for r in reversed(self.made.roles) if _passes(r, token.name)), None)
            for place, role in enumerate(self.team):
                own = f"if (member == {place}) " if len(self.team) > 1 else ""
                for _ in range(token.given):
                    if when == "before" and giver is role:
                        yield f"{own}tc_bar_arrive<{token.barrier}, {2 * GROUP}>();"
                    elif when == "after" and token.taker == role.name:
                        yield f"{own}tc_bar_sync<{token.barrier}, {2 * GROUP}>();"

    def each(self, texts: Sequence[str]) -> str:
        """What a value is in each role of the team."""
        made = texts[-1]
        for place in reversed(range(len(texts) - 1)):
            made = f"member == {place} ? {texts[place]} : {made}"
        return made

    def barrier(self, verb: str, numbers: Sequence[int], threads: int) -> str:
        """A named barrier, which each role of the team has one of: their numbers are immediates,
        or ptxas would reserve all there are."""
        calls = [f"tc_bar_{verb}<{number}, {threads}>();" for number in numbers]
        made = calls[-1]
        for place in reversed(range(len(calls) - 1)):
            made = f"if (member == {place}) {calls[place]} else {made}"
        return made

    def grid(self) -> Iterator[str]:
        """The grid's indices of this block, and how many iterations its loop has."""
        if len(self.kernel.grid) > 1:
            yield "u32 rest = block;"
        for place, block in reversed(list(enumerate(self.kernel.grid))):
            name = self.scope.e.base.get(block.index) or self.scope.names.plain(
                f"{block.index}0" if block.size > 1 else block.index
            )
            scale = f" * {block.size}" if block.size > 1 else ""
            own = "rest" if len(self.kernel.grid) > 1 else "block"
            number = f"({own} % {self.count(block)})" if place else own
            yield f"const i64 {name} = (i64){number}{scale};"
            if place:
                yield f"rest /= {self.count(block)};"
            self.scope.e.base[block.index] = name
            self.scope.block[block.index] = block.size
        lower, upper = (self.parameters.polynomial(p) for p in (self.loop.lower, self.loop.upper))
        yield f"const int tiles = tct_tiles({lower}, {upper}, {self.loop.block});"
        self.scope.block[self.loop.index] = self.loop.block
        low, high = (self.parameters.polynomial(p) for p in self.loop.full)
        if self.team[0].warps > 1 and any(
            self.loop.index in let.edge for let in self.lets.values()
        ):
            yield f"const int full = tct_full({lower}, {high}, {self.loop.block});"
            if self.loop.full[0].constant != 0:
                yield f"const int begun = tct_tiles({lower}, {low}, {self.loop.block});"

    def block(self, role: Role) -> Iterator[str]:
        """Prologue, steady state and epilogue."""
        yield from self.section(role.prologue)
        if role.steady:
            self.got = None
            yield f"for (int step = {role.first}; step < tiles; step++) {{"
            yield from ("  " + line for line in self.section(role.steady))
            yield "}"
            self.got = None
        yield from self.section(role.epilogue)

    def section(self, body: Sequence[channel.Statement]) -> Iterator[str]:
        for item in body:
            if not isinstance(item, When):
                yield f"// {self.comment(item)}"
            match item:
                case When(at, inner):
                    self.got = None
                    while inner and isinstance(inner[0], Wait):  # no harm where nothing flies
                        yield from self.section(inner[:1])
                        inner = inner[1:]
                    yield f"if ({iteration(at)} < tiles) {{"
                    yield from ("  " + line for line in self.section(inner))
                    yield "}"
                    self.got = None  # or there may be none
                case Put(ring, call):
                    (name,) = self.bodies[call.operation].statements
                    yield from self.rings.put(ring, call.at, self.lets[name])
                case Get(ring, at):
                    yield self.rings.get(ring, at)
                    self.got, self.busy = item, False
                case Done(ring, at, _):
                    yield self.rings.done(ring, at)
                case Turn(token):
                    yield self.barrier("sync", self.numbers(token, 0), 2 * GROUP)
                case Pass(token):
                    yield self.barrier("arrive", self.numbers(token, 1), 2 * GROUP)
                case Wait(_, pending):
                    yield from self.apart()
                    yield f"tc_wgmma_wait<{pending}>();"
                    done = self.flying[: len(self.flying) - pending]
                    self.flying = self.flying[len(self.flying) - pending :]
                    for name in dict.fromkeys(done):
                        if name not in self.flying:
                            yield f"tc_tie({name});"
                case Perform():
                    yield from self.perform(item)

    def apart(self) -> Iterator[str]:
        """What keeps the work of threads before a wait for products: the end of a basic block,
        inside of which ptxas moves such waits up. An element that is in use is there: a wait for it
        is a branch that is not taken."""
        if self.busy and self.got is not None:
            again = self.rings.get(self.got.ring, self.got.at)
            yield f"{again}  // still: what is above stays there"
        self.busy = False

    def comment(self, item: channel.Statement) -> str:
        """A line of the schedule, as it reads for every role of the team."""
        text = print_statement(item).replace("[i", "[step")
        if len(self.team) == 1:
            return text
        if isinstance(item, Turn | Pass):
            (unit,) = (token.unit for token in self.made.tokens if token.name == item.token)
            return f"{text.split()[0]} {unit}"
        return plain(text, self.team[0])

    def numbers(self, name: str, after: int) -> list[int]:
        """The barriers of a token in each role of the team: of its own turn, or of the next's."""
        tokens = {token.name: token for token in self.made.tokens}
        if len(self.team) == 1:
            return [tokens[name].barrier]
        own = {t.taker: t.barrier for t in tokens.values() if t.unit == tokens[name].unit}
        names = [role.name for role in self.team]
        return [own[names[(place + after) % len(names)]] for place in range(len(names))]

    # --- operations -----------------------------------------------------------------------------

    def cut(self, tile: Tile, windows: Mapping[str, channel.Window]) -> Tile:
        """A register tile on the lanes of one role."""
        if tile.space != "register":
            return tile
        sizes = tuple(
            windows[a].count if a in windows else n
            for a, n in zip(tile.axes, tile.sizes, strict=True)
        )
        return replace(tile, sizes=sizes)

    def variables(self, role: Role) -> Iterator[str]:
        """The arrays of a role's values."""
        made: dict[str, str] = {}
        self.values = {}
        for item in channel.statements(role):
            if not isinstance(item, Perform):
                continue
            for result in item.results:
                tile = self.cut(self.whole[self.holds[result.name][0]], self.windows_of(item))
                if result.into not in made:
                    shape = dimensions(tile, self.scope.placement) if tile.axes else ()
                    name = plain(result.into, role) if len(self.team) > 1 else result.into
                    made[result.into] = self.scope.names.derived("v", name)
                    kind = "u32" if isinstance(tile.layout, Operand) else value_kind(tile)
                    yield f"{kind} {made[result.into]}{''.join(f'[{n}]' for n in shape)};"
                self.values[result.name] = made[result.into]

    def windows_of(self, item: Perform) -> dict[str, channel.Window]:
        """The lanes that an operation works on; those of a start value are its carry's."""
        made = item.call.operation
        if made == channel.START:
            made = self.makers[item.results[0].name]
        if made not in self.bodies:
            raise NotImplementedError(f"values that pass between roles: {print_statement(item)}")
        return {window.index: window for window in self.bodies[made].windows}

    def perform(self, item: Perform) -> Iterator[str]:
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
        self.at = item.call.at
        name = self.loop.index
        self.scope.e.base[name] = f"({self.rings.base(item.call.at)})"
        names = self.bodies[item.call.operation].statements
        copies: list[tuple[str, str, Tile]] = []
        for number, statement in enumerate(names):
            yield from self.added_up(statement)
            if statement in self.puts:
                yield from self.store(self.puts[statement], windows)
                continue
            let = replace(self.lets[statement], tile=self.scope.tiles[statement])
            if let.tile.space == "shared":
                yield from self.staged(let)
                continue
            held = [self.values[r.name] for r in item.results if self.holds[r.name][0] == statement]
            target = yield from self.target(let, held, names[number + 1 :])
            copies += [(other, target, let.tile) for other in held if other != target]
            if let.by.instruction.startswith("wgmma"):
                self.flying += [(yield from product(self.rings, let, item, target, self.whole))]
            else:
                yield from self.simple(let, target)
                self.busy = True
            self.scope.variables[statement] = target
        for other, source, tile in copies:
            shape = dimensions(tile, self.scope.placement) if tile.axes else ()
            yield f"{_over(shape)}{_each(other, shape)} = {_each(source, shape)};"

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
                number = self.rings.number(self.at)
                tests += [f"begun <= {number}"] if self.loop.full[0].constant != 0 else []
                tests.append(f"{number} < full")
            elif not self.scope.whole(index):
                size = self.scope.block.get(index, 0)
                tests.append(f"{base} + {size} <= {self.parameters.extent(index)}")
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
        barrier = self.barrier("sync", numbers, GROUP)
        yield f"{barrier}  // nobody still reads this memory"
        yield from simt.to_shared(self.scope, let)
        yield "tc_fence_proxy_async();"
        yield barrier

    def store(self, item: Store, windows: Mapping[str, channel.Window]) -> Iterator[str]:
        """A store of fragments, or of a tile in shared memory."""
        yield f"// {shown(item)}"
        if item.by.instruction != "tma.store":
            yield from stores.store(self.scope, item)
            return
        assert isinstance(item.value, Value)
        yield from self.rings.store(item, self.whole[item.value.tile], windows)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _passes(role: Role, token: str) -> bool:
    return any(isinstance(item, Pass) and item.token == token for item in channel.statements(role))


def _over(shape: Sequence[int]) -> str:
    return "".join(f"TCT_FOR({v}, {n}) " for v, n in zip(_LOOPS, shape, strict=False))


def _flat(name: str, shape: Sequence[int]) -> str:
    """Accumulators of 64 rows as one array."""
    return f"(float(&)[{shape[1] * 4}]){name}[0]"


def _each(name: str, shape: Sequence[int]) -> str:
    return name + "".join(f"[{v}]" for v, _ in zip(_LOOPS, shape, strict=False))
