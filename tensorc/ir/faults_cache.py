"""Warnings W601 to W604: the directory in which compiled kernels are kept."""

from __future__ import annotations

from tensorc.ir.entry import Entry, Message

CACHE_FAULTS: dict[str, Entry] = {
    "W601": Entry(
        "cache that others can write",
        "Code is loaded only from a directory and files that belong to the user and that nobody "
        "else can write. Kernels are compiled in memory instead.",
        Message(
            "the cache is not used: {path}",
            do="make it your own (chmod 700), or set TENSORC_CACHE_DIR to a private directory",
        ),
    ),
    "W602": Entry(
        "cache that cannot be read or written",
        "The disk is full, read-only or failing. Results are right; kernels are compiled again in "
        "the next process.",
        Message(
            "the cache is not used: {path}: {reason}",
            do="free the disk, or set TENSORC_CACHE_DIR to a directory that can be written",
        ),
    ),
    "W603": Entry(
        "damaged file in the cache",
        "A file is not what was written: cut short, changed, or put in the place of another. It is "
        "moved to the directory bad beside it, never executed, and the kernel is compiled again.",
        Message(
            "{path} is damaged: {reason}", do="nothing; tensorc cache verify looks at the rest"
        ),
    ),
    "W604": Entry(
        "no directory for the cache",
        "Without a home directory, or relative to a working directory that is gone, no place can "
        "be told. Kernels are compiled in memory.",
        Message("the cache is off: {path} is no place", do="set TENSORC_CACHE_DIR to a full path"),
    ),
}
