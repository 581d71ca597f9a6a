"""Faults E201 to E207, E214, E215, E218 to E224 and W201 to W203: what a program means."""

from __future__ import annotations

from tensorc.ir.entry import Entry, Message

PROGRAM_FAULTS: dict[str, Entry] = {
    "E201": Entry(
        "two extents for one name",
        "Within an operator a name has one extent. A bare index walks its whole dimension; two "
        "different symbols are never assumed equal, even when they happen to be at a call. "
        "A walk over a part of a dimension is an expression, and is checked to stay inside.",
        Message(
            "{index} is {here} here and {there} at {place}",
            do="use another name: within an op a name has one extent",
        ),
        {
            "bare": Message(
                "{index} has extent {extent}, but dimension {axis} of {name} has {size}",
                do="use the dimension's own name, or for a part of it write {index} + 0",
            ),
            "left": Message(
                "{index} has extent {extent}, but dimension {axis} of {name} has {size}",
                do="use the dimension's own name, or an index of that extent",
            ),
            "call": Message(
                "{index} is {here} in {array} and {there} in {other}",
                do="pass arrays that agree, or declare two names",
            ),
            "fixed": Message(
                "{index} is {here} in {array}, and {there} by the program",
                do="pass an array of that shape",
            ),
            "rows": Message(
                "{name} is declared with {declared} rows along dimension {axis}, and has {rows}"
            ),
        },
        wrong="op f(q: f32[m, d], k: f32[n, d]) -> s: f32[m, n]\n"
        "  s[m, n] = sum[d](q[m, d] * k[m, d])",
        right="op f(q: f32[m, d], k: f32[n, d]) -> s: f32[m, n]\n"
        "  s[m, n] = sum[d](q[m, d] * k[n, d])",
    ),
    "E202": Entry(
        "free index missing on the left",
        "Every index that is free on the right is an index of the left side. The reverse, "
        "y[i, j] = x[i], is a broadcast.",
        Message(
            "{index} is free here and not on the left side",
            do="reduce it, sum[{index}](...), or add it to the left side",
        ),
        wrong="op f(a: f32[m, k], b: f32[k]) -> y: f32[m]\n  y[m] = a[m, k] * b[k]",
        right="op f(a: f32[m, k], b: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k] * b[k])",
    ),
    "E203": Entry(
        "index twice on the left",
        "The left side names each index once; a diagonal is written with a condition.",
        Message(
            "{index} stands twice on the left side",
            do="use two names and a condition: select({index} == other, ..., 0)",
        ),
        {
            "reduction": Message(
                "{index} stands twice in {reducer}[...]", do="name each index once"
            ),
        },
        wrong="op f(x: f32[n]) -> D: f32[n, n]\n  D[n, n] = x[n]",
        right="op f(x: f32[n]) -> D: f32[n, m=|n|]\n  D[n, m] = select(n == m, x[n], 0)",
    ),
    "E204": Entry(
        "unknown tensor or wrong rank",
        "A tensor is a parameter, an output or a name defined above; it is read with one "
        "subscript for each of its dimensions.",
        Message("unknown tensor {name}"),
        {
            "bare": Message("unknown tensor or index {name}"),
            "table": Message("{name} is no number, and a table holds numbers"),
            "rows": Message("{name} has {rank} dimensions, its rows are nested {depth} deep"),
            "array": Message(
                "{name} has {rank} dimensions ({dims}), the array has {count}",
                do="pass an array of that rank",
            ),
            "size": Message("{name} has no size {size}"),
            "rank": Message(
                "{name} has {rank} dimensions ({dims}), {count} subscripts given",
                do="write one subscript for each dimension",
            ),
            "left": Message(
                "{name} is declared with {rank} dimensions ({dims}), {count} indices given",
                do="write one index for each dimension",
            ),
        },
        wrong="op f(x: f32[n, m]) -> y: f32[n]\n  y[n] = x[n]",
        right="op f(x: f32[n, m]) -> y: f32[n]\n  y[n] = sum[m](x[n, m])",
    ),
    "E205": Entry(
        "reduction over nothing",
        "The largest of no integers and the position of it have no value. A sum over an extent "
        "of 0 is 0, a product 1, and a where that selects nothing is defined too.",
        Message(
            "{reduction} over {index}, whose extent is 0, has no value",
            do="pass at least one element along {index}",
        ),
    ),
    "E206": Entry(
        "size that is none",
        "A size is an integer, at least 0, made with divisors of at least 1.",
        Message("{size} = {value} is negative", do="pass larger extents"),
        {
            "divisor": Message("{size} divides by {value}", do="pass a divisor of at least 1"),
            "kind": Message("{size} is {value}, not an integer", do="pass an integer"),
            "const": Message("{size} is not known when sizes are", do="declare {size}: const i64"),
            "form": Message(
                "{size} is not a size",
                allowed="integers, |i|, const integer parameters, + - * // %, min, max",
            ),
            "unknown": Message(
                "|{index}| is not known yet where this size is stated",
                do="state {index} first",
            ),
        },
    ),
    "E207": Entry(
        "no common type",
        "Signed and unsigned 64-bit integers have no type in common, & | ^ take two integers or "
        "two bools, and some functions do not take complex numbers. Comparison binds weaker than "
        "& | ^, as in Python: a <= b & c is a <= (b & c).",
        Message("{a} {operator} {b} has no type", do="cast one of them"),
        {
            "function": Message("{function} of {types} has no type", do="cast the argument"),
            "subscript": Message("a subscript of {name} is an integer, this is {dtype}"),
            "accumulator": Message(
                "{reducer} takes no accumulator type",
                allowed="sum, prod, mean, logsumexp, softmax",
                do="cast the operand",
            ),
            "bitcast": Message(
                "bitcast from {stored} to {dtype} changes the width", do="cast to that width first"
            ),
            "power": Message(
                "an integer to the power {exponent} is not an integer",
                do="cast the base: f32(...) ** {exponent}",
            ),
        },
        wrong="op f(a: i64[n], b: u64[n]) -> y: i64[n]\n  y[n] = a[n] + b[n]",
        right="op f(a: i64[n], b: u64[n]) -> y: i64[n]\n  y[n] = a[n] + i64(b[n])",
    ),
    "E214": Entry(
        "extent that nothing fixes",
        "An index gets its extent where it is stated (i=4), from a dimension of that name, or "
        "from a subscript outside any condition. An index that is only compared or computed with "
        "has none.",
        Message("nothing fixes |{index}|", do="write {index}=size where {index} is bound"),
        {
            "unknown": Message(
                "there is no index {index}, so |{index}| is nothing",
                do="name a dimension {index}, or write {index}=size where it is bound",
            ),
            "itself": Message(
                "the size of {index} depends on itself", do="state one of the sizes as a number"
            ),
            "call": Message("nothing fixes |{index}|", do="give the size {index}=..."),
        },
        wrong="op f(x: f32[t]) -> y: f32[t]\n  y[t] = sum[s](select(s <= t, 1.0, 0.0))",
        right="op f(x: f32[t]) -> y: f32[t]\n  y[t] = sum[s=|t|](select(s <= t, 1.0, 0.0))",
    ),
    "E215": Entry(
        "access out of range",
        "Every subscript stays within its dimension, for all sizes; conditions of select, where, "
        "and, or are used in the proof.",
        Message(
            "{name} is read at {subscript}, up to {reach}, but its dimension {dim} ends at {bound}",
            do="add a where, or clamp({subscript}, 0, {bound})",
        ),
        {
            "low": Message(
                "{name} is read at {subscript}, down to {reach}, but its dimension {dim} starts "
                "at 0",
                do="add a where, or clamp({subscript}, 0, {bound})",
            ),
        },
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n + 1]",
        right="op f(x: f32[n]) -> y: f32[n]\n  y[n] = select(n + 1 < |n|, x[n + 1], 0)",
    ),
    "E218": Entry(
        "left index that the right side only reduces",
        "The reduction hides the index of the left side, so every element would be the same total.",
        Message(
            "{index} is on the left side, but the right side only reduces it",
            do="reduce over another name, or leave {index} out on the left",
        ),
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = sum[n](x[n])",
        right="op f(x: f32[n]) -> y: f32\n  y = sum[n](x[n])",
    ),
    "E219": Entry(
        "reduced index that does not occur",
        "A sum over an index that its body does not use multiplies by the extent; that is "
        "more often a slip than meant.",
        Message(
            "{index} is reduced but does not occur in the body",
            do="leave it out, or multiply by |{index}| if that is meant",
        ),
        wrong="op f(x: f32[n], z: f32[m]) -> y: f32\n  y = sum[n, m](x[n])",
        right="op f(x: f32[n], z: f32[m]) -> y: f32\n  y = sum[n](x[n]) * |m|",
    ),
    "E220": Entry(
        "order of definitions",
        "Each name is defined once, by one equation, above every equation that reads it.",
        Message("{name} is read before it is defined", do="move its equation up"),
        {
            "twice": Message("{name} is already defined", do="choose another name"),
            "scalar": Message(
                "{name} is an index of this op, so a scalar needs another name",
                do="choose another name",
            ),
        },
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = z[n] + 1\n  z[n] = 2 * x[n]",
        right="op f(x: f32[n]) -> y: f32[n]\n  z[n] = 2 * x[n]\n  y[n] = z[n] + 1",
    ),
    "E221": Entry(
        "outputs defined, parameters not",
        "Every output has an equation; a parameter has its value from the caller.",
        Message("output {name} is never defined", do="write its equation: {name}{left} = ..."),
        {
            "parameter": Message(
                "{name} is a parameter, its value comes from the caller", do="choose another name"
            ),
        },
        wrong="op f(x: f32[n]) -> y: f32[n], z: f32[n]\n  y[n] = x[n]",
        right="op f(x: f32[n]) -> y: f32[n], z: f32[n]\n  y[n] = x[n]\n  z[n] = -x[n]",
    ),
    "E222": Entry(
        "store that changes the kind",
        "A store converts within a kind, integers to floats, and bool to any. Float to integer, "
        "complex to real and number to bool lose what a reader would not expect, so they are "
        "written as casts.",
        Message("{name} is {dtype}, but its value is {value}", do="write {dtype}(...)"),
        {"header": Message("{name} is {declared} in the header", do="leave the dtype out here")},
        wrong="op f(x: f32[n]) -> y: i32[n]\n  y[n] = x[n] / 2",
        right="op f(x: f32[n]) -> y: i32[n]\n  y[n] = i32(x[n] / 2)",
    ),
    "E223": Entry(
        "condition that is no bool",
        "where, select, and, or, not, any and all take bools; a number is not one.",
        Message("{what} takes a bool, this is {dtype}", do="write ... != 0"),
        wrong="op f(x: i32[n]) -> y: bool\n  y = any[n](x[n])",
        right="op f(x: i32[n]) -> y: bool\n  y = any[n](x[n] != 0)",
    ),
    "E224": Entry(
        "literal that does not fit",
        "An integer literal takes the type of what it meets and must fit there.",
        Message("{literal} does not fit {dtype}", allowed="{low} to {high}"),
        wrong="op f(x: u8[n]) -> y: bool[n]\n  y[n] = x[n] == 3000000000",
        right="op f(x: u8[n]) -> y: bool[n]\n  y[n] = i64(x[n]) == 3000000000",
    ),
    "W201": Entry(
        "parameter that nothing reads",
        "The parameter is declared and its shape is checked, but no equation reads it.",
        Message("parameter {name} is never read", do="remove it, or read it"),
    ),
    "W202": Entry(
        "integer store that may wrap",
        "Integers wrap at the declared width. The value is not known to fit.",
        Message("{name} is {dtype}, and its value may not fit", do="write {dtype}(...) to say so"),
    ),
    "W203": Entry(
        "equation that no output needs",
        "What the equation defines goes into no output, so it is not computed.",
        Message("no output needs {name}; it is not computed", do="remove it, or use it"),
    ),
}
