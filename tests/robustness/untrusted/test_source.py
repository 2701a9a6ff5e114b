"""No call in the source turns untrusted data into code or unpacks it anywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted([*(ROOT / "visr").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")])

MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "code",
    "pty",
}
"""Modules that must not be imported."""
NAMES = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
"""Built-in functions that turn text into code or wait for input."""
METHODS = {
    "extractall", "extract", "system", "popen", "execv", "execve", "spawnl", "spawnv", "runpy",
    "unsafe_load", "full_load", "load_module", "exec_module", "import_module", "run_path", "run_module",
    "import_string", "literal_eval", "unpack_archive", "load_pickle", "read_pickle", "mktemp",
}  # fmt: skip
"""Attributes that must not be called on any object, except for ALLOWED."""
NUMPY_READERS = {"load", "read_array", "fromfile", "memmap", "open_memmap"}
"""Functions of numpy that need allow_pickle=False."""

ALLOWED = {
    ("visr/cli.py", "import_module"): "a verb of visr's own list, never user input",
    ("visr/envs/gym.py", "import_module"): "a package of a fixed list that registers games",
    ("visr/envs/modules.py", "import_module"): "the user's own module, behind consent",
    ("visr/envs/modules.py", "exec_module"): "the user's own file, behind consent",
}
"""(file, call) -> why it is allowed."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in SOURCES:
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def test_all_source_files_are_searched():
    names = {name for name, _ in trees()}
    assert len(names) > 120
    assert {
        "visr/envs/gym.py",
        "visr/inference/expression.py",
        "visr/training/checkpoint.py",
    } <= names


def faults(name: str, tree: ast.AST) -> list[str]:
    """Forbidden imports and calls, with their lines."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts = [alias.name for alias in node.names]
            parts += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{name}:{node.lineno} imports {p}" for p in parts if _is_banned(p)]
        elif isinstance(node, ast.Call):
            found += [f"{name}:{node.lineno} {why}" for why in _faults_of_call(name, node)]
    return found


def _is_banned(module: str) -> bool:
    return module.partition(".")[0] in MODULES or module == "yaml"


def _faults_of_call(name: str, call: ast.Call) -> Iterator[str]:
    options = {word.arg: word.value for word in call.keywords}
    if isinstance(call.func, ast.Name) and call.func.id in NAMES:
        yield f"calls {call.func.id}"
    if isinstance(shell := options.get("shell"), ast.Constant) and shell.value:
        yield "starts a shell"
    if "shell" in options and not isinstance(options["shell"], ast.Constant):
        yield "may start a shell"
    if not isinstance(call.func, ast.Attribute):
        return
    called, owner = call.func.attr, ast.unparse(call.func.value)
    if called in METHODS and (name, called) not in ALLOWED:
        yield f"calls {owner}.{called}"
    if owner in ("np", "numpy", "npy", "np.lib.format") and called in NUMPY_READERS:
        allows = options.get("allow_pickle")
        if not isinstance(allows, ast.Constant) or allows.value is not False:
            yield f"calls {owner}.{called} without allow_pickle=False"
    if owner in ("torch", "yaml") and called == "load":
        yield f"calls {owner}.load"
    if isinstance(allows := options.get("allow_pickle"), ast.Constant) and allows.value:
        yield "allows pickle"


def test_no_source_file_turns_data_into_code():
    assert [fault for name, tree in trees() for fault in faults(name, tree)] == []


def test_the_search_finds_every_forbidden_call():
    lines = [
        "import pickle", "from pickle import loads", "import yaml", "from joblib import load",
        "import dill.source", "import marshal, os", "eval(x)", "exec('1')", "compile(x, '', 'exec')",
        "__import__('os')", "torch.load(path)", "np.load(path)", "np.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=flag)", "npy.read_array(file)", "archive.extractall(out)",
        "os.system('x')", "subprocess.run('x', shell=True)", "subprocess.Popen(x, shell=flag)",
        "os.popen(x)", "importlib.import_module(name)", "runpy.run_path(x)", "yaml.load(x)",
        "pd.read_pickle(x)", "shutil.unpack_archive(x)", "pickle.loads(x) if 0 else __import__('pickle')",
    ]  # fmt: skip
    assert [line for line in lines if not faults("visr/somewhere.py", ast.parse(line))] == []


def test_every_allowed_call_exists_and_has_a_reason():
    for (name, called), why in ALLOWED.items():
        assert why
        text = (ROOT / name).read_text(encoding="utf-8")
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        assert any(isinstance(c.func, ast.Attribute) and c.func.attr == called for c in calls)


def test_a_users_module_is_imported_only_after_checking_that_it_is_trusted():
    text = (ROOT / "visr" / "envs" / "modules.py").read_text(encoding="utf-8")
    functions = {
        n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)
    }
    body, consent = functions["_import"], functions["_require_consent"]
    assert 0 < consent.index("in _trusted()") < consent.index("would {kind}")
    for call in ("import_module(", "_import_file("):
        assert 0 < body.index("_require_consent(") < body.index(call)
        assert [name for name in functions if call in functions[name]][:1] == ["_import"]
    callers = [name for name, lines in functions.items() if "exec_module(" in lines]
    assert callers == ["_import_file"]
