"""Extraction: the cheapest form of the roots in a saturated e-graph, shared parts priced once.

The problem is a choice of one node per needed class without cycles. CP-SAT solves it exactly; the
start, and the fallback when it does not finish within its deterministic budget, is the better of a
greedy choice and local search from it. What there is to choose from, and which forms numerics
forbid, stands in `passes.prices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tensorc.passes.algebra.egraph import ENode, Graph
from tensorc.passes.algebra.prices import Option, priced
from tensorc.passes.algebra.terms import (
    YES,
    Call,
    Choice,
    Fold,
    Gather,
    Leaf,
    Rounded,
    Some,
    Term,
    add,
    mul,
)
from tensorc.passes.scheduling.cp_sat import new_model, solve, total

WORK = 0.5  # deterministic seconds for CP-SAT
FEW = 1200  # nodes that CP-SAT is asked about


@dataclass(frozen=True)
class Extracted:
    """The chosen terms, their cost with sharing, and whether that is proved least; the cost of the
    greedy choice; of the source as written, and of the source with each sum's factors contracted
    in their best order."""

    terms: tuple[Term, ...]
    cost: int
    optimal: bool
    greedy: int
    source: int
    contracted: int


Chosen = dict[int, Option]


def extract(graph: Graph, sizes: Mapping[str, int], exact: bool = True) -> Extracted:
    """The cheapest terms of the graph's roots at these sizes."""
    options = priced(graph, sizes)
    best, optimal, first = choose(options, graph.roots, exact)
    terms = built(best, graph.roots)
    written = graph.source or graph
    before, contracted = (
        dag_cost(knuth(priced(written, sizes, ordered)), written.roots) for ordered in (False, True)
    )
    return Extracted(terms, dag_cost(best, graph.roots), optimal, first, before, contracted)


def choose(
    options: Mapping[int, list[Option]], roots: tuple[int, ...], exact: bool = True
) -> tuple[Chosen, bool, int]:
    """An option for each class that the roots need: the choice, whether it is proved cheapest, and
    the cost of the greedy one, which it never exceeds."""
    greedy = knuth(options)
    best, optimal = improved(options, greedy, roots), False
    reachable = needed(options, roots)
    if exact and sum(len(options[number]) for number in reachable) <= FEW:
        found = _optimal({number: options[number] for number in reachable}, roots, best)
        if found is not None:
            chosen, optimal = found
            if dag_cost(chosen, roots) <= dag_cost(best, roots):
                best = chosen
    return best, optimal, dag_cost(greedy, roots)


# --- choices ------------------------------------------------------------------------------------


def knuth(options: Mapping[int, list[Option]]) -> Chosen:
    """The cheapest tree of every class that has one, each class settled once."""
    import heapq

    users: dict[int, list[tuple[int, Option]]] = {}
    missing: dict[tuple[int, int], int] = {}
    heap: list[tuple[int, int, int]] = []
    done: dict[int, int] = {}
    chosen: Chosen = {}
    for number, items in options.items():
        for place, option in enumerate(items):
            missing[number, place] = len(option.needs)
            for need in option.needs:
                users.setdefault(need, []).append((number, option))
            if not option.needs:
                heapq.heappush(heap, (option.cost, number, place))
    place_of = {id(o): (n, k) for n, items in options.items() for k, o in enumerate(items)}
    while heap:
        cost, number, place = heapq.heappop(heap)
        if number in done:
            continue
        done[number], chosen[number] = cost, options[number][place]
        for user, option in users.get(number, []):
            at = place_of[id(option)]
            missing[at] -= 1
            if not missing[at] and user not in done:
                whole = option.cost + sum(done[need] for need in option.needs)
                heapq.heappush(heap, (whole, *at))
    return chosen


def dag_cost(chosen: Chosen, roots: tuple[int, ...]) -> int:
    """The cost of all that the roots need, each class once."""
    return sum(chosen[number].cost for number in walked(chosen, roots))


def walked(chosen: Chosen, roots: tuple[int, ...]) -> list[int]:
    """The classes that the roots need."""
    seen: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen[number] = None
            waiting.extend(chosen[number].needs)
    return list(seen)


def needed(options: Mapping[int, list[Option]], roots: tuple[int, ...]) -> list[int]:
    """Classes that some choice may need."""
    seen: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen[number] = None
            waiting.extend(need for option in options[number] for need in option.needs)
    return sorted(seen)


ROUNDS = 4  # sweeps of local search


def improved(options: Mapping[int, list[Option]], start: Chosen, roots: tuple[int, ...]) -> Chosen:
    """Local search: change one class at a time while the shared cost falls."""
    best, cost = dict(start), dag_cost(start, roots)
    for _ in range(ROUNDS):
        before = cost
        for number in walked(best, roots):
            for option in options[number]:
                if any(need not in best for need in option.needs) or option is best[number]:
                    continue
                trial = {**best, number: option}
                if acyclic(trial, roots) and (price := dag_cost(trial, roots)) < cost:
                    best, cost = trial, price
        if cost == before:
            break
    return best


def acyclic(chosen: Chosen, roots: tuple[int, ...]) -> bool:
    """Whether no class needs itself."""
    state: dict[int, int] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            number, leaving = stack.pop()
            if leaving:
                state[number] = 2
            elif state.get(number) == 1:
                return False
            elif number not in state:
                state[number] = 1
                stack.append((number, True))
                for need in chosen[number].needs:
                    if state.get(need) == 1:
                        return False
                    stack.append((need, False))
    return True


def _optimal(
    options: Mapping[int, list[Option]], roots: tuple[int, ...], start: Chosen
) -> tuple[Chosen, bool] | None:
    """CP-SAT's choice, and whether it is proved; None if it has none."""
    cp = new_model()
    used = {number: cp.new_bool_var(f"c{number}") for number in options}
    level = {number: cp.new_int_var(0, len(options), f"l{number}") for number in options}
    taken = {
        (number, place): cp.new_bool_var(f"o{number}_{place}")
        for number, items in options.items()
        for place in range(len(items))
    }
    loops = _on_cycles(options)
    scale = _scale(options)
    for number, items in options.items():
        picks = [taken[number, place] for place in range(len(items))]
        cp.add_exactly_one(*picks, ~used[number])
        for place, option in enumerate(items):
            for need in option.needs:
                cp.add_implication(taken[number, place], used[need])
                if number in loops and need in loops:
                    cp.add(level[number] >= level[need] + 1).only_enforce_if(taken[number, place])
    for root in roots:
        cp.add_bool_or(used[root])
    cp.minimize(
        total(
            taken[number, place] * -(-option.cost // scale)
            for number, items in options.items()
            for place, option in enumerate(items)
        )
    )
    live = set(walked(start, roots))
    for number, items in options.items():
        cp.add_hint(used[number], int(number in live))
        for place, option in enumerate(items):
            cp.add_hint(taken[number, place], int(number in live and start[number] is option))
    answer = solve(cp, WORK)
    if answer.solution is None:
        return None
    chosen: Chosen = {}
    for number, items in options.items():
        for place, option in enumerate(items):
            if answer.solution.value(taken[number, place]):
                chosen[number] = option
    return chosen, answer.exact and scale == 1


def _scale(options: Mapping[int, list[Option]]) -> int:
    """A divisor that keeps sums of costs within the solver's integers."""
    most = sum(max((option.cost for option in items), default=0) for items in options.values())
    return max(1, -(-most // (1 << 50)))


def _on_cycles(options: Mapping[int, list[Option]]) -> set[int]:
    """Classes that may need themselves, by peeling off those that cannot."""
    needs = {n: {need for o in items for need in o.needs} for n, items in options.items()}
    left = set(options)
    while True:
        used = {need for n in left for need in needs[n] if need in left}
        peeled = {n for n in left if n not in used or not needs[n] & left}
        if not peeled:
            return left
        left -= peeled


# --- terms --------------------------------------------------------------------------------------


def built(chosen: Chosen, roots: tuple[int, ...]) -> tuple[Term, ...]:
    """The roots as terms."""
    made: dict[int, Term] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            number, ready = stack.pop()
            if number in made:
                continue
            if ready:
                made[number] = _term(chosen[number], made)
            else:
                stack.append((number, True))
                stack.extend((need, False) for need in chosen[number].needs if need not in made)
    return tuple(made[root] for root in roots)


def _term(option: Option, made: Mapping[int, Term]) -> Term:
    if option.product is not None:
        (indices,) = option.node.data
        assert isinstance(indices, tuple)
        body = of_node(option.product, [made[arg] for arg in option.product.args])
        return Fold("Sum", indices, made[option.node.args[0]], body)
    return of_node(option.node, [made[arg] for arg in option.node.args])


def of_node(item: ENode, args: list[Term]) -> Term:
    """An e-node over terms, as a term: products and sums of one part are that part."""
    match item.operator, item.data:
        case "Leaf", (str(name),):
            return Leaf(name)
        case "Yes", _:
            return YES
        case "Mul", (Fraction() as factor,):
            return mul(args, factor)
        case "Add", _:
            return add(args)
        case "Sum" | "Max" | "Min" as kind, (tuple() as indices,):
            return Fold(kind, indices, args[0], args[1])
        case "Some", (tuple() as indices,):
            return Some(indices, args[0])
        case "F1" | "F2", (str(name),):
            return Call(name, tuple(args))
        case "Sel", _:
            return Choice(*args)
        case "Rnd", (str(dtype),):
            return Rounded(dtype, args[0])
        case "Gat", (str(index),):
            return Gather(index, args[0], args[1])
        case _:
            raise ValueError(f"{item.operator} {item.data} is no term")
