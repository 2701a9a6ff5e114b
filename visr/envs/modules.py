"""Environments of the user's own: `module:Id-v0`, `module:Class`, `file.py:Class` and `file.py:Id-v0`.

Importing a module runs its code, and a run may be untrusted. So code is imported only if the user
named it on the command line, in `visr.pretrain` or in VISR_TRUST, or trained with the same file before
(`visr.storage.consent`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from visr.errors import UserError, did_you_mean, short_repr
from visr.storage import consent

TRUST = "VISR_TRUST"
"""The environment variable with trusted modules, separated by commas; child processes inherit it."""


def module_of(env: str) -> str:
    """The module or file before the colon of an environment's id; empty without a colon."""
    return env.rpartition(":")[0]


def trust(env: str, remember: bool = False) -> None:
    """Allow the import of this environment's code, because the user named it.

    `remember` keeps the consent for runs that are opened later.
    """
    module = module_of(env)
    if module and module not in _trusted():
        os.environ[TRUST] = ",".join([*_trusted(), module])
    if module and remember and (file := _find(module)) is not None:
        consent.remember(module, file)


def load(env: str) -> str | EnvSpec:
    """Import the code of `env` if the user trusts it; return what `gymnasium.make` takes."""
    module, _, name = env.rpartition(":")
    if not module:
        return name
    loaded = sys.modules.get(_name_in_python(module)) or _import(module, env)
    if name in gymnasium.registry:
        return name
    made = getattr(loaded, name, None)
    if inspect.isfunction(made):  # it may do anything, also if visr imported its module itself
        _require_consent(module, _find(module) or _known_elsewhere(module), env)
    if _is_env_class(made) or inspect.isfunction(made):
        return EnvSpec(name, entry_point=made)  # pyright: ignore
    if not name.isidentifier():
        return name  # an id; gymnasium says what is wrong with it
    classes = {key: value for key, value in vars(loaded).items() if _is_env_class(value)}
    own = [key for key, value in classes.items() if value.__module__ == loaded.__name__]
    has = f"it has {', '.join(own)}" if own else "it defines no class that is a gymnasium.Env"
    raise UserError(
        f"There is no environment class {name!r} in {module!r}; "
        + did_you_mean(name, own, f"{has}.")
    )


def _is_env_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, gymnasium.Env)


def id_of(env: Any) -> str:
    """The id of an environment that is given as such, as an object, a spec, a class or a function."""
    if isinstance(env, str):
        return env
    spec = env if isinstance(env, EnvSpec) else getattr(env, "spec", None)
    if isinstance(spec, EnvSpec) and spec.id in gymnasium.registry:
        return spec.id
    name, module = getattr(env, "__qualname__", ""), getattr(env, "__module__", "")
    if (
        callable(env)
        and name.isidentifier()
        and getattr(sys.modules.get(module), name, None) is env
    ):
        return f"{module}:{name}"
    raise UserError(
        f"{short_repr(env)} is no environment to train in; give an id, a registered environment, or a class "
        "or function that is defined at the top level of a module."
    )


def _import(module: str, env: str) -> ModuleType:
    """Import a module or a file, after checking that the user trusts it."""
    is_file, file = module.endswith(".py"), _find(module) or _known_elsewhere(module)
    if is_file and file is None:
        raise UserError(
            f"The environment {env!r} needs the file {module!r}, which is not here; run visr in its "
            "directory, or give its path."
        )
    _require_consent(module, file, env)
    trust(env)  # for child processes
    if file is not None and (place := str(_root(file))) not in sys.path:
        sys.path.append(place)  # last: nothing beside the file replaces an installed module
    try:
        name = _name_in_python(module).partition(".")[0]
        if file is not None and file.is_file() and name not in sys.modules:
            loaded = _import_file(name, file)  # this file, whatever the module path holds
            if is_file:
                return loaded
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the user's code failed
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        kind = "file" if is_file else "module"
        raise UserError(
            f"The {kind} {module!r} of the environment {env!r} could not be imported ({reason})."
        ) from error


def _require_consent(module: str, file: Path | None, env: str) -> None:
    """Refuse a module that the user neither named nor trained with."""
    if module in _trusted() or (file is not None and consent.is_given(module, file)):
        return
    if module.endswith(".py"):
        kind, way = "run the file", ""
    elif module in sys.modules:
        kind, way = "call a function of the Python module", ""
    else:
        kind, way = "import the Python module", " or import it first"
    raise UserError(
        f"The environment {env!r} would {kind} {module!r}, which runs its code; if you trust it, set "
        f"{TRUST}={module}{way}."
    )


def _import_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made


def _find(module: str) -> Path | None:
    """The file that an import would run first, in the working directory or installed; nothing is run."""
    if module.endswith(".py"):
        return Path(module).resolve() if Path(module).is_file() else None
    top = module.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path])
    if spec is None:
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(top)  # an editable installation
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    return next((Path(place).resolve() for place in places if place), None)


def _known_elsewhere(module: str) -> Path | None:
    """The file of that name with which the user has trained, if there is one such file."""
    files = [file for file in consent.files(module) if file.exists()]
    return files[0] if len(files) == 1 else None


def _root(file: Path) -> Path:
    """The directory from which Python imports this file, package or namespace."""
    return file.parent.parent if file.name == "__init__.py" else file.parent


def _name_in_python(module: str) -> str:
    """The key in sys.modules; files get one of their own, because their names may be those of modules."""
    if not module.endswith(".py"):
        return module
    place = _find(module) or _known_elsewhere(module) or module
    return f"{Path(module).stem}_{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"


def _trusted() -> list[str]:
    return [name for name in os.environ.get(TRUST, "").split(",") if name]
