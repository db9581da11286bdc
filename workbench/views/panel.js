// Shows HTML that the kernel drew and escaped, and reports which button is pressed in it.
// A row of a table and the line of a chart that belong to one target are marked together.

const THEMES = ["auto", "light", "dark", "off"];

// The mode of a projector, for the notebook of this panel.
function project(el, theme) {
  const place = el.closest(".jp-NotebookPanel") ?? document.body;
  const isDarkPage = () => document.body.dataset.jpThemeLight === "false" || document.body.classList.contains("vscode-dark");
  const set = (isOn, isDark) => {
    place.classList.toggle("workbench-projector", isOn);
    place.classList.toggle("workbench-dark", isOn && isDark);
  };
  const show = () => {
    if (place.workbenchPanel === el) set(theme !== "off", theme === "dark" || (theme === "auto" && isDarkPage()));
  };
  place.workbenchPanel = el; // it decides on the mode; each panel has a copy of this script
  // Figures measure their place again.
  const widths = new ResizeObserver(() => dispatchEvent(new Event("resize")));
  widths.observe(el);
  const themes = new MutationObserver(show);
  themes.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
  show();
  return () => {
    themes.disconnect();
    widths.disconnect();
    if (place.workbenchPanel !== el) return;
    delete place.workbenchPanel;
    set(false, false);
    dispatchEvent(new Event("resize"));
  };
}

function render({ model, el }) {
  el.classList.add("workbench-panel");
  el.dataset.lmSuppressShortcuts = "true";
  const draw = () => {
    el.innerHTML = model.get("html");
  };
  const redraw = () => {
    // Of several views of one widget only that in which a reader acted moves the page.
    const isHere = el.closest(".jp-OutputArea-child, .cell-output, body")?.contains(document.activeElement);
    draw();
    if (model.get("scrolls") && el.innerHTML && isHere) el.scrollIntoView({ block: "nearest" });
  };
  const mark = ({ target }) => {
    const row = target.closest?.("[data-row]")?.dataset.row, within = target.closest?.(".view") ?? el;
    for (const one of el.querySelectorAll("[data-row]")) {
      one.classList.toggle("hit", one.dataset.row === row && within.contains(one));
    }
  };
  for (const kind of ["mouseover", "focusin", "mouseleave"]) el.addEventListener(kind, mark);
  el.addEventListener("click", ({ target }) => {
    if (!target.closest("button") && !getSelection().isCollapsed) return; // a text is marked, to be copied
    // Beside a button the one of the cell, or the only one of the row.
    const inRow = target.closest("tr")?.querySelectorAll("button") ?? [];
    const only = inRow.length === 1 ? inRow[0] : null;
    const button = target.closest("button") ?? target.closest("td")?.querySelector("button") ?? only;
    if (!button || target.closest("summary")) return;
    button.focus({ preventScroll: true }); // the reader is in this view
    model.send(button.value);
  });
  el.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab's notebook would take Enter
  model.on("change:html", redraw);
  draw();
  const theme = el.querySelector("[data-projector]")?.dataset.projector;
  const end = THEMES.includes(theme) ? project(el, theme) : () => {};
  return () => {
    model.off("change:html", redraw);
    end();
  };
}
export default { render };
