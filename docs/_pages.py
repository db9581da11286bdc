"""Generate pages for mkdocs: the API from docstrings, and a page for each method.

The page of a method links its notebook as executed for the demo run with seed 0 in runs/; `make
site` executes these notebooks first. A page without an executed notebook links a note about this.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from workbench.config import CONFIGS
from workbench.execution import notebook_of
from workbench.files import PACKAGE
from workbench.runs import run_path

RUNS = Path(__file__).parent.parent / "runs"
API = [
    *("config", "data", "encoder", "methods", "losses", "training", "evaluation", "metrics"),
    *("runs", "sweeps", "views", "teaching", "teachers", "execution", "errors"),
]
NAMED = '- <autoref optional identifier="{at}">`{name}`</autoref>\n'
ALONE = (
    "\n::: {}\n    options: {{show_root_heading: true, show_root_toc_entry: true, "
    "show_root_full_path: false}}\n"
)
TOP = (
    "# workbench\n\nNames that `from workbench import ...` provides; each is loaded on first "
    "use:\n\n"
)
METHOD = """{opening}

[The notebook, executed]({shown}) · [its equations, functions and tests](../methods.md#{anchor}) ·
[the paper's numbers](../reproducing.md)

## Run it

```
workbench run {method}                      # the demo: bundled data, a minute or two on a laptop
workbench settings {method}                 # the table below; other profiles by --profile
```

Profiles: {profiles}.

In JupyterLab: `workbench lab`, then `{notebook}`.

## Settings of the demo

{settings}

## In Python

::: workbench.methods.{name}
"""
NOT_EXECUTED = (
    "# {name}: not executed\n\nThis copy of the site has no executed notebook: `make site` "
    "executes it.\n"
)


def on_config(config: Any) -> Any:
    """Add the generated pages to the navigation."""
    methods = [f"methods/{method}.md" for method in CONFIGS]
    at = next(place for place, entry in enumerate(config.nav) if "Methods" in entry)
    config.nav[at] = {"Methods": [config.nav[at]["Methods"], *methods]}
    config.nav.append(
        {"API": ["api/workbench.md", *({f"workbench.{name}": f"api/{name}.md"} for name in API)]}
    )
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages to the files of the site."""
    top = _exported(PACKAGE / "__init__.pyi")
    alone: dict[str, str] = {}  # lazily loaded names, which mkdocstrings does not see in the source
    for package in API:
        stub = PACKAGE / package / "__init__.pyi"
        named = _exported(stub) if stub.is_file() else []
        lazy = {name: f"workbench.{package}.{place}.{name}" for place, name in named}
        lazy |= {
            name: f"workbench.{place}.{name}"
            for place, name in top
            if place.startswith(f"{package}.")
        }
        content = f"# workbench.{package}\n\n::: workbench.{package}\n" + _members(
            package, set(lazy)
        )
        content += "".join(map(ALONE.format, lazy.values()))
        files.append(File.generated(config, f"api/{package}.md", content=content))
        alone |= lazy
    links = [
        NAMED.format(name=name, at=alone.get(name, f"workbench.{place}.{name}"))
        for place, name in top
    ]
    files.append(File.generated(config, "api/workbench.md", content=TOP + "".join(links)))
    for method in CONFIGS:
        for file in _method_files(method, config):
            files.append(file)
    return files


def _exported(stub: Path) -> list[tuple[str, str]]:
    """Return module and name of each export of a stub."""
    nodes = [
        node
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    return [(node.module, item.name) for node in nodes if node.module for item in node.names]


def _members(package: str, alone: set[str]) -> str:
    """Return the option that lists the public names of a package, without those in `alone`."""
    path = PACKAGE / package / "__init__.py"
    if not path.is_file() or path.with_suffix(".pyi").is_file():
        return ""
    names: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(
            f"workbench.{package}."
        ):
            names += [item.asname for item in node.names if item.asname]
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names += [
                part.id
                for part in ast.walk(node)
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            ]
    return (
        f"    options: {{members: {sorted({name for name in names if name[0] != '_'} - alone)}}}\n"
    )


def _method_files(method: str, config: Any) -> list[File]:
    """Return the page of a method and its executed notebook."""
    notebook, settings = notebook_of(method), CONFIGS[method].from_parameters("demo")
    opening = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    opening = re.sub(
        r"\[([^]]+)\]\([^)]*\.ipynb\)", r"\1", opening
    )  # such links would be broken on the site
    name = opening.removeprefix("# ").partition(":")[0]
    page, executed = run_path(settings, RUNS) / "notebook.html", f"notebooks/{notebook.stem}"
    shown = f"{executed}.html" if page.is_file() else f"{executed}.md"
    profiles = ", ".join(f"`{profile}`" for profile in CONFIGS[method].profiles)
    facts = {
        "profiles": profiles,
        "method": method,
        "name": name,
        "anchor": name.lower(),
        "notebook": notebook.name,
    }
    text = METHOD.format(
        opening=opening, shown=f"../{shown}", settings=settings._repr_html_(), **facts
    )
    return [
        File.generated(config, f"methods/{method}.md", content=text),
        File.generated(config, shown, abs_src_path=str(page))
        if page.is_file()
        else File.generated(config, shown, content=NOT_EXECUTED.format(name=name)),
    ]
