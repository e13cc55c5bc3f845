"""A hook of MkDocs: pages and files outside of docs/ become part of the site.

MkDocs knows only docs/, while the pages link to SECURITY.md or examples/ as one reads them in the
tree. What they link to is added under `outside/`, and such links are rewritten to lead there.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
PAGES = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def in_tree(page_uri):
    """Where a page of the site lies in the tree."""
    return page_uri[len("outside/") :] if page_uri.startswith("outside/") else f"docs/{page_uri}"


def in_site(path):
    """Where a file of the tree lies in the site."""
    return path[len("docs/") :] if path.startswith("docs/") else f"outside/{path}"


def target_of(page_uri, link):
    """The file of the tree that a link of a page leads to; `None` if it is not a relative link."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    return os.path.normpath(PurePosixPath(in_tree(page_uri)).parent / link)


def prose(text):
    """The parts of a text and whether each is prose, not code."""
    return [(part, index % 2 == 0) for index, part in enumerate(CODE.split(text))]


def on_files(files, config):
    """Adds the pages, and whatever else the pages link to."""
    for name in PAGES:
        files.append(File.generated(config, f"outside/{name}", abs_src_path=str(ROOT / name)))
    for page in list(files.documentation_pages()):
        text = Path(page.abs_src_path).read_text()
        links = [link for part, is_prose in prose(text) if is_prose for link in LINK.findall(part)]
        for _, link, _, _ in links:
            target = target_of(page.src_uri, link)
            if target is None or target.startswith("docs/") or target in PAGES:
                continue
            uri = in_site(target)
            if (ROOT / target).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrites links from places in the tree to places in the site."""
    del config, files
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]  # it would show this page alone
    here = PurePosixPath(page.file.src_uri).parent

    def rewritten(match):
        target = target_of(page.file.src_uri, match[2])
        if target is None:
            return match[0]
        link = os.path.relpath(in_site(target), here)
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    parts = prose(markdown)
    return "".join(LINK.sub(rewritten, part) if is_prose else part for part, is_prose in parts)
