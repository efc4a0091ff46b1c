"""The helper's public names as a page, read from its source: nothing is imported, so torch need not be there.

Public is what the chapters import from a module of `steptime`, or what `steptime` itself exports; of such a module each
name that does not begin with an underscore and says what it is.
"""

import ast
import re

from book.chapters import ROOT, code_cells

PACKAGE = ROOT / "src" / "steptime"
ITEM = re.compile(r"^([a-z_]\w*(?:(?:, | \()[\w, ()]*)?): ")  # `same: how far …`, `path, format (the era): …`


def page(chapters):
    """The page in MyST Markdown: a part for each public module, in alphabetical order of their names."""
    return "\n".join(_module(name) for name in sorted(public_modules(chapters)))


def public_modules(chapters):
    """The names of the modules that the chapters import from, or that hold what `steptime` exports: `compare`, …"""
    homes = _imports(_parse("__init__"))
    found = {homes.get(name) or name for name in _exports(_parse("__init__"))}
    for chapter in chapters:
        for cell in code_cells(chapter.read_notebook().cells):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.ImportFrom) and node.module == "steptime":
                    found |= {homes.get(alias.name) or alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steptime."):
                    found.add(node.module.removeprefix("steptime."))
    return found


def _module(name):
    tree = _parse(name)
    parts = [
        f"## steptime.{name}\n",
        _prose(ast.get_docstring(tree)),
        f":::{{py:currentmodule}} steptime.{name}\n:::\n",
    ]
    homes = {of: home for of, home in _imports(tree).items() if of in _exports(tree)}
    others = [node for of, home in homes.items() for node in _parse(home).body if getattr(node, "name", "") == of]
    parts += [_entry(node, _parse(homes.get(node.name, name))) for node in [*tree.body, *others] if _is_public(node)]
    return "\n".join(parts)


def _parse(module):
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _exports(tree):
    """What `__all__` of a module names."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def _imports(tree):
    """{name: the module of the helper, without `steptime`, that it is imported from}; an empty one for modules."""
    nodes = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steptime")
    ]
    return {alias.name: node.module.removeprefix("steptime").lstrip(".") for node in nodes for alias in node.names}


def _is_public(node):
    kinds = (ast.FunctionDef, ast.ClassDef)
    return isinstance(node, kinds) and not node.name.startswith("_") and ast.get_docstring(node) is not None


def _entry(node, tree, inside="function", fence="::::::"):
    """One function, class, method or attribute with its docstring, as directives of Sphinx's Python domain."""
    if isinstance(node, ast.FunctionDef):
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        kind = "property" if "property" in decorators else inside
        signature = "" if kind == "property" else f"({_arguments(node, inside)})"
        body = [_prose(ast.get_docstring(node))]
    else:
        kind = "exception" if any("Error" in b or b == "Exception" for b in map(ast.unparse, node.bases)) else "class"
        signature = _constructor(node)
        members = [_entry(member, tree, "method", fence[2:]) for member in node.body if _is_public(member)]
        body = [_prose(ast.get_docstring(node)), *_questions(node, tree, fence[2:]), *members]
    return "\n".join([f"{fence}{{py:{kind}}} {node.name}{signature}", *body, fence, ""])


def _arguments(function, inside):
    arguments = ast.unparse(function.args)
    return re.sub(r"^(self|cls)(, )?", "", arguments) if inside == "method" else arguments


def _constructor(node):
    """What a class is called with; nothing where it takes nothing."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            arguments = _arguments(member, "method")
            return f"({arguments})" if arguments else ""
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        fields = [member for member in node.body if isinstance(member, ast.AnnAssign)]
        return f"({', '.join(map(_field, fields))})"
    return ""


def _field(node):
    """A field of a dataclass with its default."""
    default = node.value
    if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
        default = {keyword.arg: keyword.value for keyword in default.keywords}.get("default")
    return node.target.id + (f"={ast.unparse(default)}" if default else "")


def _questions(node, tree, fence):
    """The attributes of a Trace that are questions to it: each says what the function behind it says."""
    homes = _imports(tree)
    for member in node.body:
        for call in ast.walk(member) if isinstance(member, ast.Assign) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "question":
                name = call.args[0].id
                [asked] = [one for one in _parse(homes[name]).body if getattr(one, "name", "") == name]
                yield "\n".join([f"{fence}{{py:attribute}} {name}", _prose(ast.get_docstring(asked)), fence, ""])


def _prose(docstring):
    """A docstring as Markdown: what it is, then a list of arguments and attributes, then what it raises."""
    lines, listed = [], False  # listed: whether the line before belongs to an item of that list
    for line in docstring.splitlines():
        item = ITEM.match(line)
        if item:
            line = ("" if listed or not lines else "\n") + f"- **{item[1]}**: {line[item.end() :]}"
        elif line.startswith("Raises ") or (listed and re.match("[A-Z]", line) and lines[-1].endswith(".")):
            line = "\n" + line
        elif listed and line.strip():
            lines.append("  " + line.strip())
            continue
        lines.append(line)
        listed = bool(item)
    return "\n".join(lines) + "\n"
