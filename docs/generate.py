"""mkdocs hook: adds pages from outside of docs/, generates the reference, builds the navigation.

Every page has one source. The how-to pages come from flows/text/topics, which `parley help` prints.
A benchmark's page is its README. The reference is generated from the code. Links in sources are
paths of the repository; this hook rewrites them.
"""

import os
import posixpath
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))  # mkdocs loads this file by its path

from reference import generators, table

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "tasks", "sandbox", "warehouse", "flows", "tests")
TOPICS = "flows/text/topics"
CODE_OR_LINK = re.compile(
    r"^(?P<fence>```.*?^```$)|(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
SECTIONS = {
    "how-to": "How-to",
    "benchmarks": "Benchmarks",
    "reference": "Reference",
    "explanation": "Explanation",
    "decisions": "Decisions",
    "code": "Code",
}
"""Folder of the site -> title in the navigation, in order."""
EXPLANATION = ("architecture", "ids", "trust", "statistics", "scale")


def sources() -> dict[str, str]:
    """Return path of a source in the repository -> path of its page in the site."""
    pages = {
        "README.md": "index.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
    }
    for path in sorted((ROOT / TOPICS).glob("*.md")):
        folder = "" if path.stem == "tutorial" else "how-to/"
        pages[f"{TOPICS}/{path.name}"] = folder + path.name
    for path in sorted((ROOT / "tasks" / "benchmarks").glob("*/README.md")):
        name = path.parent.name
        pages[f"tasks/benchmarks/{name}/README.md"] = f"benchmarks/{name}.md"
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("README.md")):
            name = path.relative_to(ROOT).as_posix()
            if "/sample/" not in name:
                pages.setdefault(name, f"code/{posixpath.dirname(name)}.md")
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.suffix in {".md", ".png"}:
            pages[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT / "docs").as_posix()
    made = {f"docs/{name}": name for name in (*generators(), "decisions/index.md")}
    return pages | made | {"docs/decisions": "decisions/index.md"}


def rewritten(text: str, source: str, page: str, pages: Mapping[str, str]) -> str:
    """Return a page's text with links that work in the site.

    Args:
        text: the source text.
        source: path of the source in the repository, to which its links are relative.
        page: path of the page in the site.
        pages: result of `sources`. A link to any other file of the repository becomes the file's
            path, as code.
    """

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path not in pages and not (ROOT / path).exists():
            return match[0]  # mkdocs reports it
        if path not in pages:
            return match["text"] if f"`{path}`" == match["text"] else f"{match['text']} (`{path}`)"
        link = posixpath.relpath(pages[path], posixpath.dirname(page) or ".")
        return f"{match['image']}[{match['text']}]({link}{'#' + anchor if anchor else ''})"

    # Python-Markdown nests a list only from four blanks
    indented = re.sub(r"^  (?=- )", "    ", text, flags=re.MULTILINE)
    return CODE_OR_LINK.sub(replaced, indented)


# The site


def decisions_page() -> str:
    """Return the page that lists all decisions with their status."""
    rows = []
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title, _, status = path.read_text(encoding="utf-8").splitlines()[:3]
        number, _, name = title.removeprefix("# ").partition(". ")
        rows.append((number, f"[{name}]({path.name})", status.removeprefix("Status: ")))
    return f"# Decisions\n\n{table(('', 'decision', 'status'), rows)}\n"


def _title(text: str) -> str:
    title = next(line for line in text.splitlines() if line.startswith("# "))
    return title.removeprefix("# ").replace("`", "")


def site_pages() -> dict[str, str]:
    """Return path in the site -> text, for every page without a file in docs/."""
    pages = sources()
    texts = {
        page: rewritten((ROOT / source).read_text(encoding="utf-8"), source, page, pages)
        for source, page in pages.items()
        if not source.startswith("docs/")
    }
    made = {page: make() for page, make in generators().items()}
    return texts | made | {"decisions/index.md": decisions_page()}


def on_config(config: Any) -> Any:
    """Set the navigation: a tab for each section, with the titles of its pages."""
    texts = site_pages()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        texts.setdefault(
            path.relative_to(ROOT / "docs").as_posix(), path.read_text(encoding="utf-8")
        )
    nav: list[Any] = [{"Home": "index.md"}, {"First night": "tutorial.md"}]
    for folder, title in SECTIONS.items():
        pages = sorted(page for page in texts if page.startswith(f"{folder}/"))
        if folder == "explanation":
            pages = [f"explanation/{name}.md" for name in EXPLANATION]
        if folder == "decisions":
            pages = ["decisions/index.md"]
        nav.append({title: [{_title(texts[page]): page} for page in pages]})
    nav[-1]["Code"][:0] = [
        {"Contributing": "contributing.md"},
        {"Changelog": "changelog.md"},
        {"Outcomes before 0.1.0": "history.md"},
    ]
    config["nav"] = nav
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages without a file in docs/."""
    from mkdocs.structure.files import File

    for page, text in site_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that lies in docs/."""
    name = f"docs/{page.file.src_uri}"
    is_own = (ROOT / name).is_file() and os.fspath(page.file.src_uri) != "index.md"
    return rewritten(markdown, name, page.file.src_uri, sources()) if is_own else markdown
