"""Schedules and level 3 on the command line: for operators, level-2 texts and loop problems."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.problems.gemm import gemm
from tensorc.ir.problem_json import problem_to_json
from tensorc.ir.read_channel import read_channel
from tensorc.ir.read_schedule import read_schedule
from tensorc.ir.verify_bodies import verify_bodies
from tensorc.machine.product import load_product
from tests.cli.test_cli import run
from tests.scheduling.texts import GEMM, loop

Capture = pytest.CaptureFixture[str]
TC = """op f(a: f16[m, k], w: f16[k, n], bias: f32[n]) -> o: f16[m, n]
  z[m, n] = sum[k](a[m, k] * w[k, n]) + bias[n]
  o[m, n] = z[m, n] * sigmoid(z[m, n])
"""
SUM = "op s(a: f32[m, k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k])\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with an operator, a level-2 text and a loop problem."""
    (tmp_path / "f.tc").write_text(TC)
    (tmp_path / "s.tc").write_text(SUM)
    (tmp_path / "gemm.tile").write_text(GEMM)
    (tmp_path / "gemm.json").write_text(problem_to_json(gemm(load_product("h100"))))
    return tmp_path


@pytest.mark.parametrize("name", ["f.tc", "gemm.tile", "gemm.json"])
def test_schedules_are_emitted_and_read_back(files: Path, name: str, capsys: Capture) -> None:
    arch = ["--arch", "sm_90a"] if name == "f.tc" else []
    assert run("compile", str(files / name), *arch, "--emit", "schedule") == 0
    made = read_schedule(capsys.readouterr().out)
    assert made.ii == made.certificate.bound
    assert name == "f.tc" or made.ii == 1024


def test_level_3_is_emitted_and_fits_its_text(files: Path, capsys: Capture) -> None:
    assert run("compile", str(files / "gemm.tile"), "--emit", "channel") == 0
    made = read_channel(capsys.readouterr().out)
    assert verify_bodies(made, loop("gemm").kernel) == []
    assert run("compile", str(files / "gemm.json"), "--emit", "channel") == 0
    assert read_channel(capsys.readouterr().out).bodies == ()


def test_another_product_of_the_architecture_is_taken(files: Path, capsys: Capture) -> None:
    text = str(files / "gemm.tile")
    assert run("compile", text, "--emit", "schedule", "--machine", "h200") == 0
    assert read_schedule(capsys.readouterr().out).machine == "h200"
    assert run("compile", text, "--emit", "schedule", "--machine", "a100") == 4
    assert "a100 is sm_80" in capsys.readouterr().err
    assert run("compile", text, "--emit", "schedule", "--machine", "x100") == 1
    assert "there is no machine 'x100'" in capsys.readouterr().err


def test_what_cannot_be_pipelined_says_why(files: Path, capsys: Capture) -> None:
    assert run("compile", str(files / "s.tc"), "--arch", "sm_90a", "--emit", "channel") == 1
    error = capsys.readouterr().err
    assert "no kernel of s has a pipeline" in error
    assert "  y: " in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("f.tc", "--emit", "schedule"), "--emit schedule needs --arch"),
        (("f.tc", "--arch", "sm_90a", "--emit", "cuda", "--prove"), "--machine and --prove are"),
        (("gemm.tile", "--arch", "sm_80", "--emit", "schedule"), "is for sm_90a"),
        (("gemm.tile", "--size", "m=3", "--emit", "schedule"), "--op and --size choose in a .tc"),
        (("gemm.json", "--machine", "h100", "--emit", "schedule"), "leave out --machine"),
    ],
)
def test_wrong_uses_are_told(
    files: Path, arguments: tuple[str, ...], said: str, capsys: Capture
) -> None:
    assert run("compile", str(files / arguments[0]), *arguments[1:]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tile", "kernel", "E108"),
        ("b.tile", GEMM.replace("n: n, k: k x 4", "n: n, k: k x 3"), "k"),
        ("c.json", "{}", "no loop problem"),
        ("d.json", "[", "no loop problem"),
    ],
)
def test_texts_that_are_none_are_told(
    tmp_path: Path, name: str, text: str, said: str, capsys: Capture
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert run("compile", str(path), "--emit", "schedule") == 1
    assert said in capsys.readouterr().err


def test_explain_shows_the_period(files: Path, capsys: Capture) -> None:
    assert run("explain", str(files / "gemm.tile")) == 0
    text = capsys.readouterr().out
    assert "II 1024 = bound 1024 (unit mma), proved in closed form" in text
    assert "[mma]" in text
    assert run("explain", str(files / "f.tc"), "--arch", "sm_90a", "--json") == 0
    (item,) = json.loads(capsys.readouterr().out)["operators"]
    (schedule,) = item["schedules"]
    assert schedule["ii"] == schedule["bound"]
    assert schedule["limit"] == "unit mma"
    assert "cost.copy_latency" in schedule["assumed"]


def test_check_says_what_was_looked_at(files: Path, capsys: Capture) -> None:
    sizes = ("--size", "m=70,n=40,k=64")
    assert run("check", str(files / "f.tc"), "--arch", "sm_90a", *sizes) == 0
    text = capsys.readouterr().out
    assert re.search(r"schedule of o: ok: o\.k on h100: II (\d+) = bound \1 ", text)
    assert "barrier protocol of o: ok: no trip count blocks it" in text
    assert "numbers of level 3: ok: as level 2 has them, in 3 interleavings" in text
    assert "CUDA C++ in the emulator: " in text
    assert "on a GPU: not run" in text


def test_check_says_what_could_not_be_looked_at(files: Path, capsys: Capture) -> None:
    assert run("check", str(files / "s.tc"), "--arch", "sm_90a", "--json") == 0
    (item,) = json.loads(capsys.readouterr().out)["operators"]
    outcomes = {entry["what"]: entry["outcome"] for entry in item["checks"]}
    assert set(outcomes.values()) == {"not run"}
    assert run("check", str(files / "gemm.tile")) == 0
    assert "the file is no operator" in capsys.readouterr().out
    assert run("check", str(files / "f.tc"), "--size", "m=3") == 2


def test_check_fails_with_its_exit_code(
    files: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule that breaks its problem: the checker's sentence, and exit code 3."""
    from tensorc.commands import pipelines

    right = pipelines.find

    def find(*arguments: object) -> pipelines.Found:
        found = right(*arguments)  # type: ignore[arg-type]
        (item,) = found.pipelines
        assert item.schedule
        late = replace(item.schedule, ii=item.schedule.ii - 1)
        return replace(found, pipelines=(replace(item, schedule=late),))

    monkeypatch.setattr(pipelines, "find", find)
    assert run("check", str(files / "gemm.json")) == 3
    assert "schedule of gemm.128x256x64: failed" in capsys.readouterr().out


class _Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.words = set[str](), list[str]()
        self.links = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read_page(path: Path) -> _Page:
    found = _Page()
    found.feed(path.read_text())
    return found


def test_the_report_is_one_page_that_loads_nothing(files: Path, capsys: Capture) -> None:
    page, trace = files / "out" / "f.html", files / "out" / "f.trace"
    arguments = ("report", str(files / "f.tc"), "-o", str(page), "--trace", str(trace))
    assert run(*arguments) == 0
    found = read_page(page)
    assert not found.elements & {"script", "link", "img", "iframe", "object"}
    assert all(link.startswith("#") for link in found.links)
    text = "".join(found.words)
    for said in ("z[m, n] = sum[k](", "kernel o(a, w, bias) -> o", "ring A: ", "float"):
        assert said in text, said
    drawing = page.read_text().split("<svg", 1)[1].split("</svg>", 1)[0]
    assert ElementTree.fromstring(f"<svg{drawing}</svg>").tag.endswith("svg")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"A", "W", "c.0", "c.1"}
    assert run(*arguments) == 2  # both exist
    assert "--force" in capsys.readouterr().err


def test_names_in_a_report_are_escaped(files: Path) -> None:
    problem = gemm(load_product("h100"))
    text = problem_to_json(problem).replace('"c.0"', '"<script>x</script>&.0"')
    path = files / "<b>.json"
    path.write_text(text)
    assert run("report", str(path), "-o", str(files / "p.html")) == 0
    found = read_page(files / "p.html")
    assert not found.elements & {"script", "b"}
    assert "<script>x</script>&.0" in "".join(found.words)


def test_a_kernel_without_a_pipeline_is_reported_with_the_reason(files: Path) -> None:
    assert run("report", str(files / "s.tc"), "-o", str(files / "s.html")) == 0
    assert "It has no pipeline: " in "".join(read_page(files / "s.html").words)
