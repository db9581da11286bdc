"""Live views in a browser without a notebook: their front ends on an empty page, connected to the
kernel."""

import base64
from pathlib import Path
from typing import Any

import anywidget

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>stage</title>
<meta name="color-scheme" content="light dark"></head><body><main><h1>stage</h1></main>
<script type="module">
const read = (value) => value?.bytes !== undefined
  ? new DataView(Uint8Array.from(atob(value.bytes), (letter) => letter.charCodeAt(0)).buffer)
  : value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, read(one)])) : value;
const models = {};
const tell = async (name, changes, message) => {
  for (const [one, state] of Object.entries(await window.kernel(name, changes, message))) {
    Object.assign(models[one].state, read(state));
    for (const trait of Object.keys(state)) models[one].heard[`change:${trait}`]?.();
    models[one].heard["msg:custom"]?.();
  }
};
const first = await window.kernel("", {}, null);
for (const [name, state] of Object.entries(first)) {
  const model = { state: read(state), heard: {}, pending: {} };
  models[name] = model;
  Object.assign(model, {
    get: (trait) => model.state[trait],
    set: (trait, value) => { model.state[trait] = model.pending[trait] = value; },
    save_changes: () => {
      const changes = model.pending;
      model.pending = {};
      for (const trait of Object.keys(changes)) model.heard[`change:${trait}`]?.();
      return tell(name, changes, null);
    },
    send: (message) => tell(name, {}, message),
    on: (event, call) => { model.heard[event] = call; },
    off: () => {},
  });
  const el = document.querySelector("main").appendChild(document.createElement("div"));
  el.dataset.view = name;
  document.head.appendChild(document.createElement("style")).textContent = state._css;
  const source = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
  (await import(source)).default.render({ model, el });
}
document.body.dataset.ready = "yes";
</script></body></html>"""


def put_on(page: Any, folder: Path, **views: Any) -> None:
    """Show the tables and panels of the views on the page; input reaches them as in a notebook.

    An element has its view's name in data-view, with a number appended for the second widget of a
    view and later ones."""
    widgets = {
        f"{name}{number or ''}": widget
        for name, view in views.items()
        for number, widget in enumerate(leaves(view))
    }
    sent: dict[str, dict[str, Any]] = {name: {} for name in widgets}

    def kernel(name: str, changes: dict[str, Any], message: Any) -> dict[str, Any]:
        if name:
            sent[name] |= changes
            widgets[name].set_state(changes)
        if message is not None:
            widgets[name]._handle_custom_msg(message, [])
        found = {}
        for one, widget in widgets.items():
            state = {trait: plain(value) for trait, value in widget.get_state().items()}
            found[one] = {
                trait: value for trait, value in state.items() if sent[one].get(trait) != value
            }
            sent[one] = state
        return {one: state for one, state in found.items() if state}

    page.expose_function("kernel", kernel)
    (folder / "stage.html").write_text(PAGE, encoding="utf-8")
    page.goto((folder / "stage.html").as_uri())
    page.locator("body[data-ready]").wait_for()


def leaves(view: Any) -> list[anywidget.AnyWidget]:
    """Return the widgets of a view that have front ends of their own."""
    if isinstance(view, anywidget.AnyWidget):
        return [view]
    return [leaf for child in getattr(view, "children", ()) for leaf in leaves(child)]


def plain(value: Any) -> Any:
    """Return a trait's value without bytes and other objects."""
    if isinstance(value, bytes | memoryview):
        return {"bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value if isinstance(value, list | str | int | float | bool | None) else str(value)


def violations(page: Any) -> list[str]:
    """Return axe-core's findings in the views: rule, place, and message."""
    from axe_playwright_python.sync_playwright import Axe

    # Of passed rules axe then reports one element, not all.
    axe_options = {"resultTypes": ["violations"]}
    inside = ".workbench-look, .workbench-table, .workbench-panel, .workbench-page"
    context = [one for one in inside.split(", ") if page.locator(one).count()]
    found = (
        Axe().run(page, context={"include": context}, options=axe_options).response["violations"]
    )
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
