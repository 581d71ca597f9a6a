"""Rings and areas of a level-3 kernel in CUDA C++: where they lie, their barriers, and the copies
between them and tensors, which tensor maps describe panel by panel.

Elements are counted over the whole kernel: element k lies in slot k % depth, in phase k / depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.ir import channel
from tensorc.ir.channel import At, Window
from tensorc.ir.launch import Map
from tensorc.ir.tensor import Expr, Position, Read, Tensor, free_indices
from tensorc.ir.tile import Let, Loop, Store, Tile
from tensorc.machine.arrange import Region, Shared, storage

SPAN = 128  # bytes of a panel's rows where a tile is not swizzled


class Rings:
    """The memory of one kernel."""

    def __init__(self, scope: Scope, made: channel.Kernel, loop: Loop) -> None:
        self.scope, self.made, self.loop = scope, made, loop
        self.holds = {item.name: item.tiles for item in made.holds}
        self.rings = {ring.name: ring for ring in made.rings}
        self.maps: dict[Map, str] = {}
        scope.shared = Shared(dict(self.regions()), {}, self.bytes)

    @property
    def bytes(self) -> int:
        """Bytes of rings and areas, before barriers."""
        ends = [ring.offset + ring.bytes * ring.depth for ring in self.made.rings]
        ends += [area.offset + area.bytes for area in self.made.areas]
        return -(-max(ends) // 8) * 8

    def regions(self) -> Iterator[tuple[str, Region]]:
        """Where tiles lie that are made in shared memory."""
        for area in self.made.areas:
            for tile in self.holds.get(area.name, ()):
                yield tile, Region(area.offset, None)
        for ring in self.made.rings:
            for tile in self.holds.get(ring.name, ())[1:]:
                yield tile, Region(ring.offset, None)

    def barrier(self, ring: str, which: str) -> int:
        """The offset of a ring's first full or empty barrier."""
        at = self.bytes
        for item in self.made.rings:
            if item.name == ring:
                return at + (8 * item.depth if which == "empty" else 0)
            at += 16 * item.depth
        raise KeyError(ring)

    @property
    def total(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.bytes + sum(16 * ring.depth for ring in self.made.rings)

    def start(self) -> Iterator[str]:
        """The names of slots and barriers, and the barriers' counts of arrivals."""
        for ring in self.made.rings:
            place = f"shared + {ring.offset}, {ring.bytes}, {ring.depth}"
            full = self.barrier(ring.name, "full")
            yield f'tct_name_ring({place}, shared + {full}, "{ring.name}");'
        yield "if (threadIdx.x == 0) {"
        for ring in self.made.rings:
            full = self.barrier(ring.name, "full")
            counts = f"{ring.depth}, {ring.full_arrivals}, {ring.empty_arrivals}"
            yield f"  tct_init_ring(shared + {full}, {counts});  // {ring.name}"
        yield "  tc_fence_mbar_init();"
        yield "}"
        yield "tc_syncthreads();"

    def element(self, ring: str, at: At) -> str:
        """The number of an element of a ring, counted over the whole kernel."""
        return "round" if self.rings[ring].per == "tile" else f"(before + {iteration(at)})"

    def slot(self, ring: str, at: At) -> str:
        """Where the element lies."""
        depth = self.rings[ring].depth
        return "0" if depth == 1 else f"({self.element(ring, at)} % {depth})"

    def phase(self, ring: str, at: At) -> str:
        """The parity of its full barrier's phase."""
        depth = self.rings[ring].depth
        number = self.element(ring, at)
        return f"({number} & 1)" if depth == 1 else f"({number} / {depth} & 1)"

    def get(self, name: str, at: At) -> str:
        """Wait until an element is there."""
        full = f"shared + {self.barrier(name, 'full')} + 8 * {self.slot(name, at)}"
        return f"tc_mbar_wait({full}, {self.phase(name, at)});"

    def done(self, name: str, at: At) -> str:
        """Give an element back."""
        empty = f"shared + {self.barrier(name, 'empty')} + 8 * {self.slot(name, at)}"
        return f"if (thread == 0) tc_mbar_arrive({empty});"

    def put(self, name: str, at: At, let: Let) -> Iterator[str]:
        """Wait for the slot, expect its bytes, copy panel by panel."""
        ring = self.rings[name]
        slot, full = self.slot(name, at), self.barrier(name, "full")
        empty = self.barrier(name, "empty")
        yield f"tc_mbar_wait(shared + {empty} + 8 * {slot}, {self.phase(name, at)} ^ 1);"
        yield f"tc_mbar_arrive_expect_tx(shared + {full} + 8 * {slot}, {ring.full_bytes});"
        if not isinstance(let.body, Read) or self.rings[name].fill != "copy":
            raise NotImplementedError(f"{let.tile.name}: a ring that threads fill")
        tile = let.tile
        order, swizzle = storage(tile)
        sizes = dict(zip(tile.axes, tile.sizes, strict=True))
        bytes_ = tile.dtype.bits // 8
        panel = min(sizes[order[-1]], (swizzle or SPAN) // bytes_)
        rows = math.prod(sizes[axis] for axis in order[:-1])
        map_ = self.map(let.body.tensor, let.body.subscripts, sizes, order, panel, swizzle)
        base = self.base(iteration(at))
        coordinates: list[str] = []
        for part in reversed(let.body.subscripts):
            if not isinstance(part, Position):
                coordinates.append(f"(int)({self.scope.e.subscript(part)})")
                continue
            own = part.index == self.loop.index
            place = base if own else self.scope.e.base.get(part.index) or "0"
            panels = f" + {panel} * p" if part.index == order[-1] else ""
            coordinates.append(f"(int)({place}){panels}")
        target = f"shared + {ring.offset} + {slot} * {ring.bytes} + p * {rows * panel * bytes_}"
        call_ = f"tc_tma_load_{len(coordinates)}d"
        yield (
            f"TCT_FOR(p, {sizes[order[-1]] // panel}) {call_}({target}, &{map_}, "
            f"shared + {full} + 8 * {slot}, {', '.join(coordinates)});"
        )

    def map(
        self, tensor: Tensor, subscripts: Sequence[Expr],
        sizes: Mapping[str, int], order: Sequence[str], panel: int, swizzle: int,
    ) -> str:  # fmt: skip
        """The tensor map of a tile's panels, which have the tensor's order of dimensions."""
        box: list[int] = []
        last = order[-1]
        for part in subscripts:
            if isinstance(part, Position):
                box.append(panel if part.index == last else sizes.get(part.index, 1))
            elif free_indices(part) & {*sizes, self.loop.index}:
                raise NotImplementedError(f"{tensor.name}: a copy of more than blocks of indices")
            else:
                box.append(1)
        own = [p.index for p in subscripts if isinstance(p, Position) and p.index in sizes]
        unit = self.scope.unit(tensor, len(subscripts) - 1)
        if own != list(order) or box[-1] != panel or not unit or max(box) > 256:
            raise NotImplementedError(f"{tensor.name}: a copy in another order than the tensor's")
        made = Map(tensor.name, str(tensor.dtype), tuple(box), swizzle)
        if made not in self.maps:
            self.maps[made] = self.scope.names.derived("map", tensor.name)
        return self.maps[made]

    def number(self, iteration: str) -> str:
        """The number of the loop's block in an iteration, upwards."""
        return f"tiles - 1 - ({iteration})" if self.loop.down else iteration

    def base(self, iteration: str) -> str:
        """The base of the loop's block in an iteration."""
        number = self.number(iteration)
        if self.loop.down:
            number = f"({number})"
        lower = self.scope.parameters.polynomial(self.loop.lower)
        start = "" if self.loop.lower.constant == 0 else f"{lower} + "
        return f"{start}(i64)({number}) * {self.loop.block}"

    def store(self, item: Store, tile: Tile, windows: Mapping[str, Window]) -> Iterator[str]:
        """A tile of shared memory to its tensor, panel by panel, by one thread."""
        order, swizzle = storage(tile)
        sizes = dict(zip(tile.axes, tile.sizes, strict=True))
        bytes_ = tile.dtype.bits // 8
        panel = min(sizes[order[-1]], (swizzle or SPAN) // bytes_)
        rows = math.prod(sizes[axis] for axis in order[:-1])
        cut = {a: windows[a].count if a in windows else n for a, n in sizes.items()}
        own = self.scope.windows
        first = own.get(order[0], Index.number(0)) * (panel * bytes_)
        name = self.map(item.tensor, item.subscripts, cut, order, panel, swizzle)
        coordinates: list[str] = []
        for part in reversed(item.subscripts):
            if not isinstance(part, Position):
                coordinates.append(f"(int)({self.scope.e.subscript(part)})")
                continue
            text = f"(int)({self.scope.e.base.get(part.index) or '0'})"
            if part.index == order[-1]:
                text += f" + {panel} * p"
            elif part.index in own and own[part.index].top:
                text += f" + {own[part.index]}"
            coordinates.append(text)
        source = f"shared + {self.scope.region(tile)} + p * {rows * panel * bytes_}"
        source += f" + {first}" if first.top else ""
        yield "if (thread == 0) {"
        yield (
            f"  TCT_FOR(p, {sizes[order[-1]] // panel}) tc_tma_store_{len(coordinates)}d"
            f"(&{name}, {source}, {', '.join(coordinates)});"
        )
        yield "  tc_tma_store_commit();"
        yield "  tc_tma_store_wait_read<0>();"
        yield "}"


def iteration(at: At) -> str:
    """An iteration as C++."""
    match at.anchor:
        case "tile":
            return "0"
        case "start":
            return str(at.offset)
        case "step":
            return (
                f"step + {at.offset}"
                if at.offset > 0
                else "step" + (f" - {-at.offset}" if at.offset else "")
            )
        case "end":
            return f"tiles - {-at.offset}" if at.offset < 0 else f"tiles + {at.offset}"
