"""Rules of the source tree: where time, randomness and network may be used, packages without I/O, no dead files.

A failed test lists what it found, with the file. Reviewers check sizes and wording, import-linter the layers.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grove.cli.command_registry import COMMANDS, module_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "grove"
SOURCES = tuple(sorted(PACKAGE.rglob("*.py")))
TESTS = tuple(sorted((ROOT / "tests").rglob("test_*.py")))
PURE_PACKAGES = ("api", "planner", "placement", "installation")

TIME_ALLOWED_IN = ("clock.py", "sim/virtual_clock.py")
# Commands that run in real time get their seeds and tokens from it.
RANDOM_ALLOWED_IN = ("operations/random_source.py",)
# The process kubelet probes its pods, talks to its supervisor, and resolves the names of pods for their programs.
PROCESS_ALLOWED_IN = tuple(
    f"cluster/kubelet/process/{name}.py" for name in ("probes", "supervisor_client", "dns_resolver", "supervisor")
)
# `kube/transport.py` is the seam; behind it, one server and two clients that speak HTTP, one of them light, for short
# commands. Beside it, the operator's pages and its webhooks. All that listen do so through `listener.py`.
NETWORK_ALLOWED_IN = (
    "listener.py", "kube/kubeconfig.py", "kube/local_cluster.py", "kube/http_transport.py", "kube/light_transport.py",
    "kube/tls.py", "cluster/http/", "controller/observability/http_endpoints.py",
    "admission/webhook_server.py", "admission/tls.py", *PROCESS_ALLOWED_IN,
)  # fmt: skip
TIME_MODULES = ("sched", "time")
RANDOM_MODULES = ("random", "secrets", "uuid")
NETWORK_MODULES = ("aiohttp", "http", "requests", "socket", "socketserver", "ssl", "urllib")
OTHER_IO_MODULES = (
    "asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib", "selectors", "shutil", "signal",
    "structlog", "subprocess", "sys", "tempfile", "threading",
)  # fmt: skip
CLOCK_CALLS = re.compile(r"(?:date|datetime)\.(?:now|utcnow|today)|asyncio\.sleep|(?:.*get_\w+_loop\(\)|loop)\.time")
VAGUE_NAMES = ("helper", "helpers", "misc", "tools", "util", "utils")

# The entry point and the commands, whose modules are imported by name. Another module must import every other one.
ENTRY_POINTS = ("grove.cli.entry", *map(module_of, COMMANDS))
# Modules that no other module imports yet.
WITHOUT_CALLER: tuple[str, ...] = ()


# --- time, random, network -------------------------------------------------------------------------------------------


def test_time_has_one_door() -> None:
    closed = [path for path in SOURCES if inside(path) not in TIME_ALLOWED_IN]
    assert imported_by(closed, TIME_MODULES) == []
    assert [at(path, call) for path in closed for call in calls(path) if CLOCK_CALLS.fullmatch(call)] == []


def test_chance_is_a_random_that_the_caller_gave() -> None:
    """The type may be imported, and a generator made of a seed; the module's own generator may not be used."""
    imported = imported_by([path for path in SOURCES if inside(path) not in RANDOM_ALLOWED_IN], RANDOM_MODULES)
    assert [found for found in imported if not found.endswith((": random", ": random.Random"))] == []
    assert [at(path, "import random") for path in SOURCES if "import random\n" in path.read_text()] == []
    assert [at(path, node) for path in SOURCES for node in call_nodes(path) if ast.unparse(node) == "Random()"] == []


def test_the_network_has_one_door() -> None:
    closed = [path for path in SOURCES if not inside(path).startswith(NETWORK_ALLOWED_IN)]
    assert imported_by(closed, NETWORK_MODULES) == []


def test_a_pure_room_does_no_io() -> None:
    pure = [path for path in SOURCES if inside(path).split("/")[0] in PURE_PACKAGES]
    forbidden = (*TIME_MODULES, *RANDOM_MODULES, *NETWORK_MODULES, *OTHER_IO_MODULES)
    waiting = ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await
    assert len(pure) > 40
    assert imported_by(pure, forbidden) == []
    assert [at(path, call) for path in pure for call in calls(path) if call in ("open", "print", "input")] == []
    assert [at(path, node) for path in pure for node in ast.walk(tree_of(path)) if isinstance(node, waiting)] == []


def test_only_the_command_line_prints() -> None:
    quiet = [path for path in SOURCES if not inside(path).startswith("cli/")]
    assert [at(path, call) for path in quiet for call in calls(path) if call == "print"] == []


# --- files -----------------------------------------------------------------------------------------------------------


def test_every_module_says_what_lives_in_it() -> None:
    assert [inside(path) for path in SOURCES if not ast.get_docstring(tree_of(path))] == []


def test_every_module_has_a_home_in_the_domain() -> None:
    parts = [part for path in SOURCES for part in Path(inside(path)).with_suffix("").parts]
    assert [part for part in parts if part in VAGUE_NAMES] == []


def test_no_package_is_empty() -> None:
    packages = [path.parent for path in SOURCES if path.name == "__init__.py"]
    assert [inside(folder) for folder in packages if len(list(folder.rglob("*.py"))) == 1] == []


def test_every_module_is_needed_by_another() -> None:
    modules = [".".join(("grove", *Path(inside(p)).with_suffix("").parts)) for p in SOURCES if p.stem != "__init__"]
    needed = {name for path in SOURCES for name in imports(path)}
    unneeded = {name for name in modules if name not in needed}
    assert sorted(unneeded - set(ENTRY_POINTS)) == sorted(WITHOUT_CALLER)
    assert sorted(set(ENTRY_POINTS) - set(modules)) == []


def test_a_document_that_the_code_names_exists() -> None:
    named = [(path, file) for path in SOURCES for file in re.findall(r"\b[\w/.-]+\.md\b", path.read_text())]
    missing = [at(path, file) for path, file in named if not (ROOT / file).exists()]
    # The documents that define the system are quoted by place: spec/gang-scheduling.md, "Structure".
    assert [found for found in missing if ": spec/" not in found] == []


# A larger package has sub-packages.
MOST_FILES = 20
# How the docstring of a module must not begin: it says what the module does, not what is true or asked.
QUESTIONS = (
    "Are", "Does", "How", "Is", "May", "Of", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why",
)  # fmt: skip
# Names that the Kubernetes libraries have other words for.
FORMER_NAMES = (
    "Aftermath", "Agenda", "Ask", "Asked", "Blueprint", "Caller", "Can", "Course", "Due", "Emit", "Failure",
    "FailureBook", "Fate", "Foreseen", "FreshLook", "GateVerdict", "Homes", "Journal", "Judge", "Keeper",
    "KeyQueue", "Meter", "Mirror", "Outcome", "OverheardTransport", "PacedTransport", "PodMold", "PodStory",
    "Refused", "RefusedError", "Said", "Seen", "Sentence", "Served", "Sight", "Standing", "StatusPacer",
    "Surface", "Surroundings", "Turn", "Upkeep", "Urgency", "Verdict", "Wire", "Wishes", "_answered", "_asked",
    "_denied", "_followed", "_held", "_journal", "_kept", "_meter", "_named", "_said", "_told", "_visit", "ask",
    "blueprint", "caller", "can", "carry_out", "complaint", "course", "extras", "extras_name", "foresee", "guest",
    "has_extras", "heard", "inquiry", "is_leaving", "is_told_full", "journal", "judge", "judged", "keeper",
    "kept_failing", "lane", "life", "lives", "loners", "look", "look_at", "look_together", "make_sure", "meter",
    "mirror", "mirrors", "mixes_extras", "refused", "said", "scratch", "strays", "surface", "surroundings",
    "take_news", "tell", "told", "troubled", "unanswered", "untold", "visit", "visited", "wake_at", "wishes",
    "work_off",
)  # fmt: skip


def test_the_docstring_of_a_module_begins_with_a_noun_or_a_verb() -> None:
    first = {path: (ast.get_docstring(tree_of(path)) or "").split(maxsplit=1)[0] for path in SOURCES}
    assert [at(path, word) for path, word in first.items() if word.strip(",:") in QUESTIONS] == []


def test_no_two_public_classes_have_one_name() -> None:
    classes = [node.name for path in SOURCES for node in tree_of(path).body if isinstance(node, ast.ClassDef)]
    assert sorted({name for name in classes if not name.startswith("_") and classes.count(name) > 1}) == []


def test_no_package_has_too_many_files() -> None:
    packages = [path.parent for path in SOURCES if path.name == "__init__.py"]
    counts = {inside(folder): len(list(folder.glob("*.py"))) for folder in packages}
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


def test_no_former_name_comes_back() -> None:
    found = [(path, name) for path in SOURCES for name in names_in(path) if name in FORMER_NAMES]
    assert sorted({at(path, name) for path, name in found}) == []


# --- tests -----------------------------------------------------------------------------------------------------------


def test_every_file_of_tests_demands_something() -> None:
    silent = [path for path in TESTS if not any(isinstance(node, ast.Assert) for node in ast.walk(tree_of(path)))]
    assert [path.name for path in silent if "pytest.raises" not in calls(path)] == []


def test_no_test_is_switched_off() -> None:
    switch = re.compile(r"pytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)")
    named = [(path, dotted(n)) for path in TESTS for n in ast.walk(tree_of(path)) if isinstance(n, ast.Attribute)]
    assert [at(path, name) for path, name in named if switch.fullmatch(name)] == []


def test_no_two_files_of_tests_have_one_name() -> None:
    names = [path.name for path in TESTS]
    assert [name for name in names if names.count(name) > 1] == []


# --- words -----------------------------------------------------------------------------------------------------------

MACHINE_PATHS = re.compile(r"(?<![\w.}*>)-])/(?:work|root|tmp|home|Users|mnt)(?=/|\b)")
REGISTRIES = re.compile(r"pypi\.org|pythonhosted|index-url|--hash=|npmjs|trusted-host", re.IGNORECASE)
# A group of the wire ends in run.ai, and the organization of upstream Grove begins with it.
MAKING = re.compile(
    r"\b(?:(?<!run\.)ai(?!-dynamo)|(?<!-)agents?|assistants?|chatbots?|language models?|subagents?|co-authored-by|"
    r"(?:this|earlier|previous|next|later) sessions?|"
    r"(?:issue|ticket) #?\d+|todo|fixme)\b",
    re.IGNORECASE,
)


def test_texts_speak_of_the_project_and_not_of_its_making() -> None:
    patterns = (MACHINE_PATHS, REGISTRIES, MAKING)
    assert [at(p, match[0]) for p in texts() for pattern in patterns for match in pattern.finditer(p.read_text())] == []


def test_pinned_versions_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.]+|#.*|", line)] == []


# --- reading code ----------------------------------------------------------------------------------------------------


def texts() -> Iterator[Path]:
    """Yield all text files except the license and this file, which contains the forbidden words."""
    folders = ("src", "tests", "docs", "bench", "examples", ".ci")
    found = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    for path in sorted(found):
        is_text = path.is_file() and path.suffix in ("", ".py", ".md", ".yaml", ".toml", ".txt")
        if is_text and path != Path(__file__) and path.name != "LICENSE":
            yield path


def inside(path: Path) -> str:
    """Return the path inside the package: `kube/transport.py`."""
    return path.relative_to(PACKAGE).as_posix()


def at(path: Path, found: str | ast.AST) -> str:
    return f"{path.relative_to(ROOT)}: {found if isinstance(found, str) else ast.unparse(found)}"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def call_nodes(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]


@cache
def calls(path: Path) -> tuple[str, ...]:
    """Return the names of the called functions, as written."""
    return tuple(dotted(node.func) for node in call_nodes(path))


def dotted(node: ast.AST) -> str:
    """Return a name with its dots as it is written; arguments are left out. `ast.unparse` is slow."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case ast.Call(func=function):
            return f"{dotted(function)}()"
        case _:
            return "?"


def names_in(path: Path) -> Iterator[str]:
    """Yield every name that a module defines or uses."""
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the imported modules, and the names imported from them as `module.name`."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(found)


def imported_by(paths: tuple[Path, ...] | list[Path], modules: tuple[str, ...]) -> list[str]:
    return [at(path, name) for path in paths for name in imports(path) if name.partition(".")[0] in modules]
