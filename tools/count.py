"""How large is the package? Files, lines, and lines of code, by folder.

    python tools/count.py

Lines of code leave out blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parents[1] / "src" / "momentmix"
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def code_lines(text: str) -> int:
    """The number of lines that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def main() -> None:
    folders: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        text, parts = path.read_text(encoding="utf-8"), path.relative_to(SOURCE).parts
        folders[parts[0] if len(parts) > 1 else "(top)"].append(
            (text.count("\n"), code_lines(text))
        )
    print(f"{'folder':<14}{'files':>7}{'lines':>8}{'code':>8}")
    for name, files in sorted(folders.items()):
        lines, code = map(sum, zip(*files, strict=True))
        print(f"{name:<14}{len(files):>7}{lines:>8}{code:>8}")
    every = [one for files in folders.values() for one in files]
    lines, code = map(sum, zip(*every, strict=True))
    print(f"{'all':<14}{len(every):>7}{lines:>8}{code:>8}")
    print(f"median lines of a file: {median(lines for lines, _ in every):g}")


if __name__ == "__main__":
    main()
