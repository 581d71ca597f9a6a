"""The catalogue: complete, its messages fillable, its example programs wrong and right as said."""

from __future__ import annotations

import string

import pytest

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import CATALOGUE, explain, fault, filled
from tensorc.ir.entry import Message
from tensorc.lang import read
from tests.conftest import Golden

# E1: text and tracing; E2: meaning; E3: limits; R: at run time; W: warnings.
CODES = [f"E{n}" for n in [*range(101, 120), *range(201, 228), 301, 302]] + [
    "R704",
    *[f"W{n}" for n in (201, 202, 601, 602, 603, 604)],
]


def test_every_code_of_the_language_is_there() -> None:
    assert set(CODES) <= set(CATALOGUE)


@pytest.mark.parametrize("code", [code for code in CATALOGUE if CATALOGUE[code].wrong])
def test_the_wrong_example_has_the_fault_and_the_right_one_none(code: str) -> None:
    entry = CATALOGUE[code]
    with pytest.raises(NotationError) as caught:
        read(entry.wrong)
    assert {item.code for item in caught.value.diagnostics} == {code}
    assert read(entry.right)


def messages() -> list[tuple[str, Message]]:
    """Each message with the code that selects it."""
    found: list[tuple[str, Message]] = []
    for code, entry in CATALOGUE.items():
        found.append((code, entry.message))
        found += [(f"{code}.{variant}", message) for variant, message in entry.others.items()]
    return found


@pytest.mark.parametrize(("code", "message"), messages())
def test_messages_are_filled_in(code: str, message: Message) -> None:
    fields = {
        name: f"<{name}>"
        for template in (message.text, message.found, message.allowed, message.do)
        for _, name, _, _ in string.Formatter().parse(template)
        if name is not None
    }
    text = str(filled(code, None, fields))
    assert text.startswith(f"TC-{code.partition('.')[0]}: ") and "{" not in text
    assert not message.text.endswith(".")


def test_the_users_braces_are_not_fields() -> None:
    assert "{name}" in str(fault("E119", kind="function", name="{name}"))


def test_given_lines_replace_those_of_the_catalogue() -> None:
    item = fault("E117", name="op", do="say {x}", found="f")
    assert (item.do, item.found, item.message) == ("say {x}", "f", "op is reserved")


def test_explain(golden: Golden) -> None:
    golden("E201.txt", explain("TC-E201"))
    assert explain("e201") == explain("E201")
    with pytest.raises(KeyError):
        explain("E999")


def test_every_code_explains_itself() -> None:
    for code in CATALOGUE:
        assert explain(code).startswith(f"TC-{code}: ") and len(explain(code)) > 60
