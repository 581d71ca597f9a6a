"""Faults E101 to E119: the text, its limits, its grammar, and what tracing refuses."""

from __future__ import annotations

from tensorc.ir.entry import Entry, Message

_SPLIT = "name a part in an equation of its own"

TEXT_FAULTS: dict[str, Entry] = {
    "E101": Entry(
        "no statement",
        "A file holds operators: a header each and the equations below it. This one holds none; "
        "comments alone are no program.",
        Message(
            "no statement in {file}",
            do="write an operator: op copy(x: f32[n]) -> y: f32[n], below it y[n] = x[n]",
        ),
        wrong="# nothing but a comment",
        right="op copy(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]",
    ),
    "E102": Entry(
        "not UTF-8 text",
        "Programs are UTF-8 text without NUL characters; a byte order mark is accepted. "
        "Names are ASCII, comments may be in any language.",
        Message("byte {offset} of {file} is not UTF-8", do="save the file as UTF-8"),
        {
            "nul": Message(
                "byte {offset} of {file} is NUL", do="save the file as text, without NUL"
            ),
        },
    ),
    "E103": Entry(
        "file over a limit",
        "A file has at most 256 KiB and 5,000 statements, so that hostile text cannot occupy the "
        "machine. A larger file is not read at all.",
        Message(
            "{file} has {size} {unit}, over the limit of {limit}",
            do="split the file, or raise {option}",
        ),
    ),
    "E104": Entry(
        "nesting over the limit",
        "Brackets and operators nest at most 200 deep. A long sum, product, comparison, `and` or "
        "`or` counts once, however many terms it has; a chain of - / // % counts each.",
        Message("nested {depth} deep", allowed="{limit}", do=_SPLIT),
    ),
    "E105": Entry(
        "too many terms in one expression",
        "One expression has at most 20,000 terms: operands of operators and arguments of "
        "functions, all in all.",
        Message("{count} terms in one expression", allowed="{limit}", do=_SPLIT),
    ),
    "E106": Entry(
        "character or name not allowed",
        "Names are ASCII: a letter or _, then letters, digits and _, 64 at most. Look-alikes of "
        "ASCII letters, invisible characters and those that change the direction of text would let "
        "two different programs look the same. A name that ends in ' is the compiler's own.",
        Message("{text} ({points}) is not allowed here", do="remove it"),
        {
            "name": Message(
                "{text} ({points}) is not allowed in a name",
                allowed="A-Z a-z 0-9 _",
                do="write the name in ASCII",
            ),
            "long": Message(
                "{text} has {length} characters", allowed="64", do="choose a shorter name"
            ),
            "prime": Message(
                "{text} ends in ' (U+0027), which marks the compiler's own names",
                do="choose a name without it",
            ),
        },
        wrong="op f(\u03b1: f32) -> y: f32\n  y = \u03b1",
        right="op f(alpha: f32) -> y: f32\n  y = alpha",
    ),
    "E107": Entry(
        "number not representable",
        "A number has at most 40 digits and is finite in f64, or in the type that it meets. "
        "Infinity is written inf.",
        Message(
            "{literal} is not representable in {dtype} ({value})", do="write a number in range"
        ),
        {
            "digits": Message("{literal} has {digits} digits", allowed="40", do="round it"),
            "form": Message(
                "{literal} is not a number",
                allowed="12, 0x1f, 1.5, 2e-3, 0x1.8p-3, 2j",
                do="write it in one of these forms",
            ),
        },
        wrong="op f(x: f32) -> y: f32\n  y = x * 1e999",
        right="op f(x: f32) -> y: f32\n  y = x * inf",
    ),
    "E108": Entry(
        "syntax",
        "The text does not follow the grammar. The message says what could have stood here.",
        Message("expected {what}, found {token}"),
        {"rows": Message("this row has {row_shape}, the first one {shape}", do="make them equal")},
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] +",
        right="op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] + 1",
    ),
    "E109": Entry(
        "unclosed bracket",
        "A bracket stays open until it is closed; lines inside it must be deeper than the "
        "statement, so the next statement shows that the bracket was forgotten.",
        Message("this {bracket} is never closed", do="close it with {closing}"),
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = 2 * (x[n] + 1",
        right="op f(x: f32[n]) -> y: f32[n]\n  y[n] = 2 * (x[n] + 1)",
    ),
    "E110": Entry(
        "truth value of an expression",
        "Python runs the function once, before any data exists, so it cannot branch on values. "
        "`and`, `or`, `not`, `in`, `a < b < c`, `if` and the builtin min and max all ask for a "
        "truth value.",
        Message(
            "a tensor expression has no truth value while it is traced",
            do="use & | ~, (a < b) & (b < c), tc.select(c, a, b), tc.max(a, b)",
        ),
    ),
    "E111": Entry(
        "iteration over an expression",
        "An expression is one element as a function of its indices; there is nothing to iterate.",
        Message("a tensor expression cannot be {what}", do="use tc.sum[index](...)"),
    ),
    "E112": Entry(
        "Python or NumPy function of an expression",
        "math, NumPy and float() compute with numbers; a traced expression has none yet.",
        Message("{name} does not take a tensor expression", do="use {instead}"),
    ),
    "E113": Entry(
        "assignment to an element",
        "A tensor is defined once, by one equation for all its elements.",
        Message(
            "tensors are defined once; {name} cannot be assigned to",
            do="use tc.let[i, j](expression)",
        ),
    ),
    "E114": Entry(
        "not a value",
        "Expressions are made of parameters, indices, extents and Python numbers. An array is "
        "passed as a parameter; a slice is written with an index.",
        Message("{type} is no value in an expression", do="pass it as a parameter"),
        {
            "dtype": Message("{type} is no storage type", do="write tc.f16, tc.i32 and so on"),
            "index": Message("{type} is no index", do="write {form}[i, j](...) with indices alone"),
        },
    ),
    "E115": Entry(
        "indices missing",
        "A reduction names the indices that it removes, and a tensor is read at subscripts.",
        Message("{reducer} names no index", do="name what is reduced: {prefix}{reducer}[d](...)"),
        {
            "rank": Message(
                "{name}[{dims}] stands without subscripts",
                do="write {name}[{dims}]",
            ),
        },
        wrong="op f(x: f32[n]) -> y: f32\n  y = sum[](x)",
        right="op f(x: f32[n]) -> y: f32\n  y = sum[n](x[n])",
    ),
    "E116": Entry(
        "signature and function disagree",
        "The signature's parameters are the function's, by name and in order, and each returned "
        "value is free in exactly the indices of its output.",
        Message("{name} is in the signature, not among the function's parameters"),
        {
            "extra": Message("{name} is a parameter of the function, not in the signature"),
            "order": Message("the signature lists {signature}, the function takes {function}"),
            "free": Message(
                "the value returned for {name}[{dims}] is free in {free}",
                do="use tc.result[{free}](...), or reduce the rest",
            ),
            "count": Message("{count} returned, {outputs} declared"),
            "names": Message(
                "the dimensions of {name} ({dims}) are no left side: each needs its own name",
                do="use tc.result[i, j](...) with an index for each",
            ),
            "result": Message(
                "what tc.result defines here is not returned", do="use tc.let for what is only read"
            ),
        },
    ),
    "E117": Entry(
        "reserved name",
        "These names have a fixed meaning, now or in a planned form: op const monoid where and or "
        "not in as if else for def scan repeat until inf nan pi true false, and the dtypes.",
        Message("{name} is reserved", do="choose another name"),
        wrong="op f(in: f32[n]) -> y: f32[n]\n  y[n] = in[n]",
        right="op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]",
    ),
    "E118": Entry(
        "planned form",
        "The form is part of the grammar, so that programs will not change when it comes, but "
        "nothing is behind it yet.",
        Message("{form} is planned and not supported yet", do="{core}"),
        wrong="op f(x: f32[t]) -> y: f32[t]\n  y[t] = y[t - 1] + x[t] init 0",
        right="op f(x: f32[t]) -> y: f32[t]\n  y[t] = sum[u=|t|](x[u + 0] where u <= t)",
    ),
    "E119": Entry(
        "unknown function or reduction",
        "Functions and reductions are those of the language; a helper function is written in "
        "Python, or as an equation.",
        Message("unknown {kind} {name}"),
        {"arity": Message("{name} takes {takes}, {count} given")},
        wrong="op f(x: f32[n]) -> y: f32[n]\n  y[n] = sqroot(x[n])",
        right="op f(x: f32[n]) -> y: f32[n]\n  y[n] = sqrt(x[n])",
    ),
}
