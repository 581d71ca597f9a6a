"""Faults E403 to E407, N401 and N402: solvers that stop early, schedules, and machine files."""

from __future__ import annotations

from tensorc.ir.entry import Entry, Message

SCHEDULE_FAULTS: dict[str, Entry] = {
    "N401": Entry(
        "rewriting stopped early",
        "Rewriting works by counts: rows of the e-graph, matches in a step, steps. At a limit the "
        "cheapest form found until then is used; where the process of the solver crashed, ran out "
        "of memory or was killed after its time, the program as it stands. Either is checked like "
        "any other result.",
        Message("{pass}: {limit}"),
    ),
    "N402": Entry(
        "schedule without the solver",
        "The solver found nothing within the work that it may do, so the loop has a list schedule: "
        "legal and checked, but with a gap to the bound that its certificate states.",
        Message(
            "{problem}: the solver found nothing within its effort",
            do="--prove lets it work for about a minute",
        ),
    ),
    "E403": Entry(
        "no schedule fits",
        "At no interval does the loop fit the machine. The message has the resource, how much the "
        "loop needs at least, what there is, and the smallest change among those tried with which "
        "it fits.",
        Message("{problem} has no schedule on {machine}: {resource}: {need}, limit {limit}"),
    ),
    "E404": Entry(
        "solver lost",
        "The solver works in a process of its own. It crashed, ran out of memory or was killed "
        "after its time; the loop has a list schedule instead, which is not kept, so that the next "
        "process asks again. The loop problem is kept as a file, with which the solver can be "
        "called again alone: tensorc explain FILE.json.",
        Message("the solver was lost ({reason})", do="run again; if it happens again, report it"),
    ),
    "E405": Entry(
        "illegal schedule",
        "A schedule is judged by a checker that shares nothing with the solver: dependences, "
        "units, rings and memories, registers, barriers, arrivals and its certificate. Rules are "
        "named by what they are about, with the operations that meet there.",
        Message("{file} breaks the rule {rule} at {operations}", found="{numbers}"),
    ),
    "E406": Entry(
        "bad machine file",
        "A machine file states every number with where it comes from (measured, derived, published "
        "or assumed) and a note. A missing, negative or unknown number is refused, so that no "
        "schedule rests on it.",
        Message("machine file {file}: {key}", found="{found}", allowed="{allowed}"),
    ),
    "E407": Entry(
        "text that is no schedule",
        "Schedules are read as they are printed: a headline, then tables of roles, operations, "
        "rings and units.",
        Message("{file}, line {line}: {problem}", found="{found}", allowed="{allowed}"),
    ),
}
