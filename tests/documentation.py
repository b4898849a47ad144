"""The program that makes the documentation's pages, loaded as mkdocs loads it."""

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from tests.own_files import ROOT


@cache
def generate() -> ModuleType:
    """Return the module `docs/generate.py`, which lies in no package."""
    spec = spec_from_file_location("parley_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def generated_pages() -> dict[str, str]:
    """Return path in the site -> text, of every page of the reference."""
    return {page: make() for page, make in generate().generators().items()}
