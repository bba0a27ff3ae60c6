"""Find the user's app: `module:name`, or `path/file.py:name`."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from fencepost.app import Fencepost
from fencepost.errors import FencepostError, UsageError
from fencepost.foreign_text import error_text
from fencepost.settings import Settings
from fencepost.settings_file import with_dialects


def load_app(reference: str) -> Fencepost:
    """Return the app; raise UsageError with what is missing."""
    if not reference:
        raise UsageError(
            'there is no app: add app = "module:app" to the configuration, or name it with --app'
        )
    module_name, _, attribute = reference.rpartition(":")
    if not module_name or not attribute:
        raise UsageError(f"app {reference!r}: write module:name or path/file.py:name")
    module = _import(module_name)
    app = getattr(module, attribute, None)
    if app is None:
        raise UsageError(f"app {reference!r}: {module_name} has no {attribute!r}")
    if not isinstance(app, Fencepost):
        raise UsageError(f"app {reference!r}: {attribute} is no Fencepost(...)")
    if not app.handlers:
        raise UsageError(f"app {reference!r}: it has no handler: decorate one with @app.on(...)")
    return app


def with_app_dialects(settings: Settings) -> Settings:
    """Return the settings with each source's dialect found, if need be among those of the app.

    The app is only imported for a name that nothing else knows.
    """
    if all(source.speech_known for source in settings.sources.values()):
        return settings
    registered = load_app(settings.app).policies if settings.app else {}
    return with_dialects(settings, registered)


def _import(name: str) -> ModuleType:
    try:
        if name.endswith(".py"):
            return _import_file(Path(name))
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    except FencepostError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and not _within(name, error.name):
            raise UsageError(
                f"app {name}: it imports {error.name}, which is not installed"
            ) from None
        raise UsageError(
            f"app {name}: there is no such module here: run from its folder, or name its file as "
            "path/file.py:name"
        ) from None
    except (Exception, SystemExit) as error:  # whatever a user's module may raise at import
        raise UsageError(f"app {name}: importing it failed: {error_text(error)}") from error


def _within(module: str, missing: str) -> bool:
    """Return True if the missing module is the app's own, or a package that it should be in."""
    if module.endswith(".py"):
        return False
    return module == missing or module.startswith(f"{missing}.")


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"app {path}: there is no such file")
    # A file called queue.py must not stand in the place of the library's own module.
    name = f"app_{path.stem}" if path.stem in sys.stdlib_module_names else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module
