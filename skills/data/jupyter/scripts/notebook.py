"""Make, show, change and run Jupyter notebooks (.ipynb).

  notebook.py new a.ipynb --from a.py          cells begin at `# %%`, text at `# %% [markdown]`
  notebook.py show a.ipynb --outputs --cells 3-5     --pictures shots/ saves the plots as PNG
  notebook.py add a.ipynb --file cell.py --after 2   --markdown for a text cell; set, delete
  notebook.py run a.ipynb --timeout 600              needs nbclient and ipykernel
  notebook.py clear a.ipynb                          remove outputs before a commit
  notebook.py export a.ipynb --to py                 or md, to standard output

Cells are counted from 1. A failing cell stops `run`; what was computed until then is kept.
Exit code: 0 done, 1 a cell failed, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any

MARK = re.compile(r"(?m)^# %%[ \t]*(\[markdown\])?.*\n?")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
MOST = 2000
"""Characters of one output that `show` prints."""


class Problem(Exception):
    """Something the user has to correct."""


def load(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise Problem(f"{file} is no notebook: it is not JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("cells"), list):
        raise Problem(f"{file} is no notebook of version 4")
    return found


def save(file: Path, book: dict[str, Any]) -> None:
    """Write beside the file, then replace it: a crash leaves the old one."""
    part = file.with_name(f".{file.name}.part")
    part.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(file)


def cell(source: str, markdown: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cell_type": "markdown" if markdown else "code",
        "id": uuid.uuid4().hex[:8],
        "metadata": {},
        "source": source.strip("\n").splitlines(keepends=True),
    }
    return made if markdown else {**made, "execution_count": None, "outputs": []}


def text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value or "")


def cells_of(source: str) -> list[dict[str, Any]]:
    parts = MARK.split(source)
    found = [cell(parts[0], markdown=False)] if parts[0].strip() else []
    for mark, body in zip(parts[1::2], parts[2::2]):  # noqa: B905 - Python 3.9
        if mark:
            body = re.sub(r"(?m)^# ?", "", body)
        if body.strip():
            found.append(cell(body, bool(mark)))
    return found


def new(options: argparse.Namespace) -> int:
    if options.file.exists() and not options.force:
        raise Problem(f"{options.file} is already there; use --force to replace it")
    source = options.source.read_text("utf-8-sig") if options.source else ""
    cells = cells_of(source)
    kernel = {"display_name": options.kernel, "language": "python", "name": options.kernel}
    meta = {"kernelspec": kernel, "language_info": {"name": "python"}}
    save(options.file, {"cells": cells, "metadata": meta, "nbformat": 4, "nbformat_minor": 5})
    print(f"{options.file}: {len(cells)} cells")
    return 0


def place(book: dict[str, Any], number: int) -> int:
    if not 1 <= number <= len(book["cells"]):
        raise Problem(f"there is no cell {number}: the notebook has {len(book['cells'])}")
    return number - 1


def chosen(wanted: str, count: int) -> range:
    found = re.fullmatch(r"(\d+)(?:-(\d*))?", wanted) if wanted else None
    if wanted and not found:
        raise Problem(f"{wanted!r} is no range such as 3 or 3-5")
    first = int(found[1]) if found else 1
    last = (int(found[2] or count) if found[2] is not None else first) if found else count
    return range(first, min(last, count) + 1)


def shown(output: dict[str, Any], stem: str, folder: Path | None) -> str:
    """One output in words; its picture goes to a file."""
    if output["output_type"] == "stream":
        return text(output["text"])
    if output["output_type"] == "error":
        return COLOR.sub("", "\n".join(output.get("traceback") or [output.get("evalue", "")]))
    data = output.get("data", {})
    if "image/png" in data:
        if not folder:
            return "[a picture; --pictures FOLDER saves it]"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{stem}.png"
        file.write_bytes(base64.b64decode(text(data["image/png"])))
        return f"[a picture: {file}]"
    return text(data.get("text/plain") or data.get("text/markdown") or "")


def show(options: argparse.Namespace) -> int:
    book = load(options.file)
    for number in chosen(options.cells, len(book["cells"])):
        each = book["cells"][place(book, number)]
        ran = f" [{each['execution_count']}]" if each.get("execution_count") else ""
        print(f"--- {number} {each['cell_type']}{ran}\n{text(each['source'])}")
        for at, output in enumerate(each.get("outputs", []) if options.outputs else [], 1):
            found = shown(output, f"cell{number}-{at}", options.pictures).rstrip("\n")
            rest = f"\n… {len(found) - MOST} characters more" if len(found) > MOST else ""
            print(f">>> {found[:MOST]}{rest}")
    return 0


def add(options: argparse.Namespace) -> int:
    book = load(options.file)
    after = len(book["cells"]) if options.after is None else options.after
    if not 0 <= after <= len(book["cells"]):
        raise Problem(f"--after is between 0 and {len(book['cells'])}")
    book["cells"].insert(after, cell(source_of(options), options.markdown))
    save(options.file, book)
    print(f"cell {after + 1} was added")
    return 0


def change(options: argparse.Namespace) -> int:
    book = load(options.file)
    old = book["cells"][place(book, options.number)]
    made = cell(source_of(options), old["cell_type"] == "markdown")
    kept = {key: old[key] for key in ("id", "metadata") if key in old}
    book["cells"][options.number - 1] = {**made, **kept}
    save(options.file, book)
    print(f"cell {options.number} was changed, its outputs removed")
    return 0


def delete(options: argparse.Namespace) -> int:
    book = load(options.file)
    del book["cells"][place(book, options.number)]
    save(options.file, book)
    print(f"cell {options.number} was deleted; {len(book['cells'])} are left")
    return 0


def source_of(options: argparse.Namespace) -> str:
    return (
        sys.stdin.read() if options.source == Path("-") else options.source.read_text("utf-8-sig")
    )


def clear(options: argparse.Namespace) -> int:
    book = load(options.file)
    for each in book["cells"]:
        if each["cell_type"] == "code":
            each["outputs"], each["execution_count"] = [], None
    save(options.file, book)
    print(f"{options.file}: no outputs")
    return 0


def export(options: argparse.Namespace) -> int:
    for each in load(options.file)["cells"]:
        source = text(each["source"])
        if each["cell_type"] == "markdown":
            marked = "\n".join(f"# {line}".rstrip() for line in source.splitlines())
            print(f"# %% [markdown]\n{marked}\n" if options.to == "py" else f"{source}\n")
        elif each["cell_type"] == "code":
            print(f"# %%\n{source}\n" if options.to == "py" else f"```python\n{source}\n```\n")
    return 0


def run(options: argparse.Namespace) -> int:
    load(options.file)
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError:
        raise Problem("nbclient is missing: pip install nbclient ipykernel") from None
    book = nbformat.read(options.file, as_version=4)
    for each in book.cells:
        each.setdefault("id", uuid.uuid4().hex[:8])
    target = options.out or options.file
    kernel = options.kernel or book.metadata.get("kernelspec", {}).get("name") or "python3"
    client = NotebookClient(
        book, timeout=options.timeout, kernel_name=kernel,
        resources={"metadata": {"path": str(options.file.parent.resolve())}},
    )  # fmt: skip
    reason = ""
    try:
        client.execute()
    except CellExecutionError as error:
        reason = COLOR.sub("", str(error)).strip()
    except CellTimeoutError:
        reason = f"a cell took longer than {options.timeout} seconds (--timeout)"
    except DeadKernelError:
        reason = "the kernel died: out of memory, or a crash in a library"
    except Exception as error:
        if type(error).__name__ != "NoSuchKernel":
            raise
        raise Problem(f"there is no kernel {kernel!r}: pip install ipykernel") from None
    finally:
        save(target, json.loads(nbformat.writes(book)))
    code = [each for each in book.cells if each.cell_type == "code"]
    done = sum(bool(each.execution_count) for each in code)
    print(f"{target}: {done} of {len(code)} code cells were run")
    if reason:
        failed = next((n for n, each in enumerate(book.cells, 1) if broken(each)), 0)
        print(f"failed{f' in cell {failed}' if failed else ''}: {reason}", file=sys.stderr)
    return 1 if reason else 0


def broken(each: Any) -> bool:
    return any(output.output_type == "error" for output in each.get("outputs", []))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, work: object, words: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=words)
        made.set_defaults(work=work)
        made.add_argument("file", type=Path)
        return made

    it = action("new", new, "a new notebook")
    it.add_argument("--from", dest="source", type=Path, help="Python with lines `# %%%%`")
    it.add_argument("--kernel", default="python3")
    it.add_argument("--force", action="store_true", help="replace the file if it is there")
    it = action("show", show, "print the cells")
    it.add_argument("--cells", default="", help="such as 3 or 3-5")
    it.add_argument("--outputs", action="store_true")
    it.add_argument("--pictures", type=Path, metavar="FOLDER", help="save plots there")
    it = action("add", add, "a new cell")
    it.add_argument("--file", dest="source", type=Path, required=True, help="- is standard input")
    it.add_argument("--after", type=int, help="the cell before it (the last one)")
    it.add_argument("--markdown", action="store_true")
    it = action("set", change, "replace the source of a cell")
    it.add_argument("number", type=int)
    it.add_argument("--file", dest="source", type=Path, required=True, help="- is standard input")
    action("delete", delete, "remove a cell").add_argument("number", type=int)
    it = action("run", run, "run all cells in a fresh kernel")
    it.add_argument("--out", type=Path, help="another file for the result (the same)")
    it.add_argument("--timeout", type=int, default=600, help="seconds for each cell (600)")
    it.add_argument("--kernel", default="", help="another than the notebook names")
    action("clear", clear, "remove all outputs")
    action("export", export, "as a script or Markdown").add_argument(
        "--to", choices=("py", "md"), default="py"
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.work(options))
    except UnicodeError:
        print("error: the text is not UTF-8", file=sys.stderr)
    except (Problem, OSError, KeyError, TypeError, AttributeError) as error:
        reason = error if isinstance(error, (Problem, OSError)) else f"damaged notebook: {error!r}"
        print(f"error: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
