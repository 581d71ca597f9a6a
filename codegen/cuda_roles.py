"""Level 3 to CUDA C++ for sm_90a: warp groups with roles that meet in rings of shared memory.

What a role does, and when, is the channel program's; what an operation computes, on which lanes,
is said by its body, statements of the level-2 kernel. Every role has whole warp groups, since
registers move between warp groups; a role of one warp uses the first thread of its group. Elements
of rings are counted over the whole kernel: element k lies in slot k % depth, in phase k / depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from tensorc.codegen.cuda_alike import barrier, each, teams
from tensorc.codegen.cuda_operations import Operations
from tensorc.codegen.cuda_rings import Rings, iteration
from tensorc.codegen.cuda_scope import Scope
from tensorc.ir import channel
from tensorc.ir.channel import Done, Get, Pass, Perform, Put, Role, Turn, Wait, When
from tensorc.ir.launch import Map, Strides
from tensorc.ir.placement import Pipelined, Placement
from tensorc.ir.print_channel import print_statement
from tensorc.ir.tile import (
    Block,
    Loop,
    TileProgram,
)

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
        self.rings = Rings(self.scope, made, self.loop)
        self.operations = Operations(self.scope, self.rings, made, kernel, self.loop)
        self.teams = teams(made)
        self.team = self.teams[0]  # that is emitted
        self.got: Get | None = None  # the element that came last

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
        self.operations.start(team)
        yield f"// ---- role {', '.join(item.name for item in team)} ----"
        if len(team) > 1:
            yield f"const int member = group - {self.made.roles.index(role)};"
        yield f"tc_note_role({each([_quoted(item.name) for item in team])});"
        yield from self.registers()
        yield from self.operations.variables()
        single = role.warps == 1
        inner = list(self.tokens("before"))
        inner += ["u32 before = 0, round = 0;"]
        inner += ["for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {"]
        inner += ["  " + line for line in (*self.grid(), *self.work(role))]
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
            self.loop.index in let.edge for let in self.operations.lets.values()
        ):
            yield f"const int full = tct_full({lower}, {high}, {self.loop.block});"
            if self.loop.full[0].constant != 0:
                yield f"const int begun = tct_tiles({lower}, {low}, {self.loop.block});"

    def work(self, role: Role) -> Iterator[str]:
        """What a role does for a block of the grid."""
        yield from self.operations.definitions()
        yield from self.block(role)

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
                    if call.operation not in self.operations.bodies:
                        said = print_statement(item)
                        raise NotImplementedError(f"values that pass between roles: {said}")
                    (name,) = self.operations.bodies[call.operation].statements
                    yield from self.rings.put(ring, call.at, self.operations.lets[name])
                case Get(ring, at):
                    yield self.rings.get(ring, at)
                    self.got, self.operations.busy = item, False
                case Done(ring, at, _):
                    yield self.rings.done(ring, at)
                case Turn(token):
                    yield barrier("sync", self.numbers(token, 0), 2 * GROUP)
                case Pass(token):
                    yield barrier("arrive", self.numbers(token, 1), 2 * GROUP)
                case Wait(_, pending):
                    yield from self.apart()
                    yield f"tc_wgmma_wait<{pending}>();"
                    done = self.operations.flying[: len(self.operations.flying) - pending]
                    self.operations.flying = self.operations.flying[
                        len(self.operations.flying) - pending :
                    ]
                    for name in dict.fromkeys(done):
                        if name not in self.operations.flying:
                            yield f"tc_tie({name});"
                case Perform():
                    yield from self.operations.perform(item)

    def apart(self) -> Iterator[str]:
        """What keeps the work of threads before a wait for products: the end of a basic block,
        inside of which ptxas moves such waits up. An element that is in use is there: a wait for it
        is a branch that is not taken."""
        if self.operations.busy and self.got is not None:
            again = self.rings.get(self.got.ring, self.got.at)
            yield f"{again}  // still: what is above stays there"
        self.operations.busy = False

    def comment(self, item: channel.Statement) -> str:
        """A line of the schedule, as it reads for every role of the team."""
        text = print_statement(item).replace("[i", "[step")
        if len(self.team) > 1 and isinstance(item, Turn | Pass):
            (unit,) = (token.unit for token in self.made.tokens if token.name == item.token)
            return f"{text.split()[0]} {unit}"
        return self.operations.plain(text)

    def numbers(self, name: str, after: int) -> list[int]:
        """The barriers of a token in each role of the team: of its own turn, or of the next's."""
        tokens = {token.name: token for token in self.made.tokens}
        if len(self.team) == 1:
            return [tokens[name].barrier]
        own = {t.taker: t.barrier for t in tokens.values() if t.unit == tokens[name].unit}
        names = [role.name for role in self.team]
        return [own[names[(place + after) % len(names)]] for place in range(len(names))]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _passes(role: Role, token: str) -> bool:
    return any(isinstance(item, Pass) and item.token == token for item in channel.statements(role))
