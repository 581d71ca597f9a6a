"""Faults E208 to E213, E216, E217, E225 to E227, E301, E302, R704: arrays and sizes of a call."""

from __future__ import annotations

from tensorc.ir.entry import Entry, Message

CALL_FAULTS: dict[str, Entry] = {
    "E208": Entry(
        "output that overlaps an input",
        "An output array given by the caller shares no memory with an input or another output, "
        "unless it is declared in place: elements would be read after they were overwritten.",
        Message("{array} overlaps {other} in memory", do="pass a copy of one of them"),
    ),
    "E209": Entry(
        "buffer too short",
        "Shape and strides say which bytes are touched; the buffer holds fewer.",
        Message(
            "{array} is too short for its shape and strides",
            found="{found_bytes} bytes",
            allowed="at least {needed_bytes} bytes",
            do="pass the whole buffer",
        ),
    ),
    "E210": Entry(
        "array on another device",
        "All arrays of a call lie where the kernel runs.",
        Message(
            "{array} lies on another device",
            found="{found_device}",
            allowed="{device}",
            do="copy it there",
        ),
    ),
    "E211": Entry(
        "array of another dtype",
        "Arrays have the dtype that the operator declares; nothing is converted silently.",
        Message(
            "{array} has another dtype",
            found="{found_dtype}",
            allowed="{dtype}",
            do="convert the array",
        ),
    ),
    "E212": Entry(
        "read-only output",
        "The array given for an output cannot be written.",
        Message("{array} is read-only", do="pass a writable array"),
    ),
    "E213": Entry(
        "freed array",
        "The array's memory has been given back, or its library does not lend it out.",
        Message("{array} has been freed", do="pass an array that is alive"),
        {
            "export": Message(
                "{array} cannot be read: {reason}", do="pass a plain, materialised array"
            )
        },
    ),
    "E216": Entry(
        "access out of range at these sizes",
        "Whether the access stays in range depends on the sizes, and at these it does not.",
        Message(
            "{access} reaches {value}; {dim} has extent {extent}",
            found="{sizes}",
            do="pass sizes that fit, or add a where or clamp",
        ),
    ),
    "E217": Entry(
        "access not decidable at these sizes",
        "A condition on the sizes is decided exactly, by bounds and then point by point; here "
        "there are too many points.",
        Message(
            "{access} could not be shown to stay in range: {points} points to try",
            allowed="{limit}",
            do="add a where or clamp",
        ),
    ),
    "E225": Entry(
        "const parameter without value",
        "A const parameter that fixes a size or is folded into the kernel has its value when "
        "compiling.",
        Message("const parameter {name} has no value", do="give {name}=..."),
    ),
    "E226": Entry(
        "tensor that requires grad",
        "Kernels record nothing for automatic differentiation; a gradient would be lost in "
        "silence.",
        Message("{array} requires grad", do="pass {array}.detach()"),
    ),
    "E227": Entry(
        "masked array",
        "Kernels do not look at masks; masked elements would be read.",
        Message("{array} is a masked array", do="pass {array}.filled(...)"),
    ),
    "E301": Entry(
        "array over the limit",
        "Element and byte counts are exact; what exceeds the limit is refused before anything is "
        "allocated.",
        Message("{name}: {shape} = {product} {unit}", allowed="{limit}"),
    ),
    "E302": Entry(
        "intermediate over the limit",
        "The inputs fit, but a named tensor between them and the outputs does not.",
        Message(
            "the intermediate {name} alone: {shape} = {product} {unit}",
            allowed="{limit}",
            do="reduce before this product",
        ),
    ),
    "R704": Entry(
        "subscript from data out of range",
        "The kernel compares every subscript that holds data before it reads. No memory outside "
        "the array was touched; the outputs of this call are undefined.",
        Message("{element} = {value}, but {name} has {extent} along {dim} (0..{last})"),
    ),
}
