"""A live view in a browser without a notebook: its own front end, and what it draws, on an empty page; axe-core."""

from pathlib import Path
from typing import Any

from workbench.look._live import STYLE_SHEET, Live

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>stage</title>
<meta name="color-scheme" content="light dark"><style>{style}</style></head><body><main><h1>stage</h1></main>
<script type="module">
{script}
for (const [name, state] of Object.entries(await window.told("", {{}}))) {{
  const heard = {{}};
  const model = {{
    get: (trait) => state[trait],
    send: async (content) => {{
      Object.assign(state, (await window.told(name, content))[name]);
      heard["change:parts"]();
      heard["msg:custom"]();
    }},
    on: (event, call) => {{ heard[event] = call; }},
  }};
  const el = document.querySelector("main").appendChild(document.createElement("div"));
  el.dataset.name = name;
  render({{ model, el }});
}}
</script></body></html>"""


def put_on(page: Any, folder: Path, **views: Live) -> None:
    """Shows the views on the page, a file in `folder`; what is pressed and typed reaches them as from a notebook."""

    def told(name: str, content: dict[str, Any]) -> dict[str, Any]:
        if name:
            views[name]._told(None, content, None)
        return {one: {"kind": view.kind, "parts": view.parts} for one, view in views.items() if name in ("", one)}

    page.expose_function("told", told)
    script = str(Live._esm)  # anywidget has read the file
    (folder / "stage.html").write_text(PAGE.format(style=STYLE_SHEET, script=script), encoding="utf-8")
    page.goto((folder / "stage.html").as_uri())
    page.locator(".workbench-look [data-part=controls]").nth(len(views) - 1).wait_for()


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong in the views: rule, where, and what it says."""
    from axe_playwright_python.sync_playwright import Axe

    told = {"resultTypes": ["violations"]}  # of what is well, axe then names one element, not each
    found = Axe().run(page, context=".workbench-look", options=told).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]
