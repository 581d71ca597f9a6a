"""What a loop problem's machine holds: registers of a block, bytes of a memory, like roles."""

from __future__ import annotations

from tensorc.ir.schedule import LoopProblem, Memory, Registers, Role


def sharing(problem: LoopProblem) -> tuple[tuple[Role, ...], ...]:
    """The roles in classes of interchangeable ones, in the order of the problem."""
    classes: dict[tuple[int, int, bool], list[Role]] = {}
    for role in problem.roles:
        classes.setdefault((role.warps, role.base, role.variable), []).append(role)
    return tuple(tuple(members) for members in classes.values())


def groups(warps: int) -> int:
    """The warp groups that a role of so many warps is; 0 for a single warp, which shares one."""
    return warps // 4


def pool(registers: Registers, groups: int) -> int:
    """Registers that a block of `groups` warp groups has, as launched: per thread in whole steps.

    The launch gives every thread floor(total / threads) rounded down to a step; what rounding
    leaves cannot be had later (CUDA C++ programming guide, register allocation; PTX setmaxnreg).
    """
    threads = 128 * groups
    each = min(registers.total // threads, registers.ceiling)
    return each // registers.step * registers.step * threads


def room(problem: LoopProblem, memory: Memory) -> int:
    """Bytes that rings and moving values can have: from the first aligned byte after the taken."""
    align = max((r.align for r in problem.rings if r.memory == memory.name), default=1)
    return memory.bytes - -(-memory.taken // align) * align
