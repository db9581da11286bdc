// Shows HTML that the kernel drew and escaped, and reports which button is pressed in it.
// A row of a table and the line of a chart that belong to one target are marked together.

function render({ model, el }) {
  el.classList.add("workbench-panel");
  el.dataset.lmSuppressShortcuts = "true";
  const draw = () => {
    el.innerHTML = model.get("html");
    if (model.get("scrolls") && el.innerHTML) el.scrollIntoView({ block: "nearest" });
  };
  const mark = ({ target }) => {
    const row = target.closest?.("[data-row]")?.dataset.row, within = target.closest?.(".view") ?? el;
    for (const one of el.querySelectorAll("[data-row]")) {
      one.classList.toggle("hit", one.dataset.row === row && within.contains(one));
    }
  };
  for (const kind of ["mouseover", "focusin", "mouseleave"]) el.addEventListener(kind, mark);
  el.addEventListener("click", ({ target }) => {
    const button = target.closest("button") ?? target.closest("tr")?.querySelector("button");
    if (button && !target.closest("summary")) model.send(button.value);
  });
  el.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab's notebook would take Enter
  model.on("change:html", draw);
  draw();
  return () => model.off("change:html", draw);
}
export default { render };
