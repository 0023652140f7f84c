# SPDX-License-Identifier: BSD-3-Clause
"""For mkdocs: the front page is the README; links to files of the source tree, which the site does not
contain, become the name of the file."""
import pathlib
import re
import shutil

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


def on_page_content(html, page, config, files):
    """The theme's style is for tables of this class."""
    return html.replace("<table>", '<table class="docutils">')


# Debian's theme asks for jquery under another name than it has it, and for a script that it lacks.
SCRIPT = re.compile(r'<script src="(?:\.\./)*(js/[^"]+)"[^>]*></script>')


def on_post_page(output, page, config):
    """Keeps the scripts that the theme has."""
    def has(match):
        return match[0] if "jquery" in match[1] or any(
            (pathlib.Path(d) / match[1]).exists() for d in config["theme"].dirs) else ""

    return SCRIPT.sub(has, output)


def on_post_build(config):
    js = pathlib.Path(config["site_dir"]) / "js"
    wanted = re.search(r"js/(jquery[^\"]+)", (js.parent / "index.html").read_text(encoding="utf-8"))
    there = sorted(js.glob("jquery*.js"))
    if wanted and there and not (js / wanted[1]).exists():
        shutil.copyfile(there[0], js / wanted[1])
