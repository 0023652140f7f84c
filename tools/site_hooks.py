# SPDX-License-Identifier: BSD-3-Clause
"""For mkdocs: the front page is the README; links to files of the source tree, which the site does not
contain, become the name of the file."""
import pathlib
import re

from mkdocs.structure.files import File

LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files, config):
    """Adds README.md as index.md."""
    root = pathlib.Path(config["docs_dir"]).parent
    generated = root / "build" / "site-front"
    generated.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"\]\(docs/", "](", (root / "README.md").read_text(encoding="utf-8"))
    (generated / "index.md").write_text(text, encoding="utf-8")
    files.append(File("index.md", str(generated), config["site_dir"], False))
    return files


def on_page_markdown(markdown, page, config, files):
    """Keeps the links that lead to pages and pictures."""
    folder = pathlib.PurePosixPath(page.file.src_path).parent

    def keep_or_name(match):
        text, target = match[1], match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        parts = []
        for part in (folder / target).parts:
            if part == ".." and parts and parts[-1] != "..":
                parts.pop()
            else:
                parts.append(part)
        if files.get_file_from_path("/".join(parts)) is not None:
            return match[0]
        return text if "`" in text or "/" in text else f"{text} (`{target.lstrip('./')}`)"

    return LINK.sub(keep_or_name, markdown)
