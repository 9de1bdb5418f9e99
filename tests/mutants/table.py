# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of mutants, AREA.txt beside this file: the change, the damage, and the test that must find it.

    == NAME
    file: flow.c                    its name; its folder does not matter
    breaks: the damage
    promise: I9                     an invariant of docs/architecture.md, or a sentence
    stage: unit test_flow           the narrowest of "make check" that claims it; several: the first that fails counts
    -lines of the source, exactly once in files of that name; blanks at their ends do not count
    +the lines in their place; more such pairs may follow

Stages: unit PROGRAM, bpf PROGRAM, fuzz NAME (the stored inputs), docs CHECK, lint CHECK, cluster PLANE SCENARIO...
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = ("dprd", "loadcast", "kernel-patch", "conf")
FIELDS = ("file", "breaks", "promise")
FUZZ_PACKETS = "1000000"  # through the BPF programs; "make check" takes ten times as many


@dataclass(frozen=True)
class Stage:
    """A command that must fail, and what it needs built."""
    kind: str
    words: tuple

    def __str__(self):
        return " ".join((self.kind, *self.words))

    @property
    def root(self):
        return self.kind in ("bpf", "cluster")

    @property
    def builds(self):
        """This kind of stage builds its programs itself."""
        return self.kind in ("fuzz", "lint")

    @property
    def targets(self):
        """Lint and fuzz build their programs themselves: there a fault that does not compile does not count as found."""
        if self.kind in ("unit", "bpf"):
            return tuple(f"build/tests/{self.kind}/{word}" for word in self.words)
        return ("all", "build/bin/dpr-sim") if self.kind == "docs" else ("all",)

    @property
    def command(self):
        if self.words == ("fuzz_bpf",):
            return ("tests/bpf/run", *self.targets)
        if self.kind in ("unit", "bpf"):
            return ("tests/unit/run", *self.targets)
        if self.kind == "fuzz":
            return ("tests/fuzz/run", "replay", *self.words)
        if self.kind == "cluster":
            return ("tests/cluster/run", "--plane", self.words[0], "-k", " or ".join(self.words[1:]))
        return (f"tests/{self.kind}", *self.words)

    @property
    def environment(self):
        return {"PACKETS": FUZZ_PACKETS, "TEST_TIMEOUT": "60"}


@dataclass
class Mutant:
    name: str
    area: str
    file: str = ""
    breaks: str = ""
    promise: str = ""
    stages: list = field(default_factory=list)
    changes: list = field(default_factory=list)  # (old lines, new lines)

    def words(self):
        """The words by which a mutant can be selected."""
        return {self.name, self.area} | {stage.kind for stage in self.stages}


def read_line(mutant, line):
    """The fault of this record, or None."""
    if line[0] in "-+":
        if not mutant.changes or (line[0] == "-" and mutant.changes[-1][1]):
            mutant.changes.append(([], []))
        mutant.changes[-1]["-+".index(line[0])].append(line[1:].strip())
        return None
    key, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or not value:
        return f"not understood: {line}"
    if key == "stage":
        mutant.stages.append(Stage(value.split()[0], tuple(value.split()[1:])))
    elif key in FIELDS and not getattr(mutant, key):
        setattr(mutant, key, value)
    else:
        return f"not understood: {line}"
    return None


def read_table(path):
    mutants, problems = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        problem = None
        if line.startswith("== "):
            mutants.append(Mutant(line[3:].strip(), path.stem))
        elif line and not line.startswith("#"):
            problem = read_line(mutants[-1], line) if mutants else "not below a mutant"
        if problem:
            problems.append(f"{path.name}:{number}: {problem}")
    return mutants, problems


def read_all(directory):
    """Reads all mutants of the tables, and the faults of these tables."""
    mutants, problems, names = [], [], set()
    for path in sorted(directory.glob("*.txt")):
        more, wrong = read_table(path)
        mutants += more
        problems += wrong
    for mutant in mutants:
        missing = [name for name in (*FIELDS, "stages", "changes") if not getattr(mutant, name)]
        problems += [f"{mutant.name}: no {name}" for name in missing]
        problems += [f"{mutant.name}: two have this name"] if mutant.name in names else []
        problems += [f"{mutant.name}: a change without old lines, new lines or a difference"
                     for old, new in mutant.changes if not old or not new or old == new]
        names.add(mutant.name)
    return mutants, problems


def matches(old, text):
    """The numbers of the lines where these lines begin."""
    lines = [line.strip() for line in text.split("\n")]
    return [at for at in range(len(lines) - len(old) + 1) if lines[at:at + len(old)] == old]


def place_of(mutant, root):
    """(the file that it changes, None), or (None, why there is not one place)."""
    files = [(path, path.read_text(encoding="utf-8")) for source in SOURCES
             for path in sorted((root / source).rglob(mutant.file))]
    counts = [{path: len(matches(old, text)) for path, text in files} for old, _ in mutant.changes]
    for count in counts:
        if sum(count.values()) != 1:
            return None, f"stale: its lines stand {sum(count.values())} times in files {mutant.file}, not once"
    places = {path for count in counts for path in count if count[path]}
    if len(places) != 1:
        return None, f"its changes are in {len(places)} files"
    return places.pop().relative_to(root), None


def changed(mutant, text):
    for old, new in mutant.changes:
        at, lines = matches(old, text)[0], text.split("\n")
        text = "\n".join(lines[:at] + new + lines[at + len(old):])
    return text


def stage_problems(mutant, root):
    """A missing test would count as killed, or run nothing."""
    for stage in mutant.stages:
        if stage.kind in ("unit", "bpf"):
            names = [f"tests/{stage.kind}/{word}.c" for word in stage.words]
            yield from (f"no {name}" for name in names if not (root / name).is_file())
        elif stage.kind == "fuzz":
            yield from (f"no fuzzer {word}" for word in stage.words if not (root / f"tests/fuzz/fuzz_{word}.c").is_file())
        elif stage.kind == "cluster":
            scenarios = "".join(path.read_text(encoding="utf-8") for path in (root / "tests/cluster").glob("test_*.py"))
            if stage.words[0] not in ("bpf", "nfqueue", "kernel"):
                yield f"no plane {stage.words[0]}"
            yield from (f"no scenario {word}" for word in stage.words[1:]
                        if not re.search(rf"^def test_?{re.escape(word.removeprefix('test_'))}", scenarios, re.MULTILINE))
        elif stage.kind not in ("docs", "lint"):
            yield f"no stage {stage.kind}"
        if not stage.words:
            yield f"stage {stage.kind}: of what?"
