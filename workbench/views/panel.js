// Shows HTML that the kernel drew and escaped, and reports what is pressed in it.
// A row of a table and the line of a chart that belong to one target are marked together.

function render({ model, el }) {
  el.classList.add("workbench-panel");
  el.dataset.lmSuppressShortcuts = "true";
  const draw = () => {
    const held = el.contains(el.getRootNode().activeElement) ? el.getRootNode().activeElement : null;
    const { name, value } = { ...held?.dataset, ...(held?.name ? { name: held.name, value: held.value } : {}) };
    el.innerHTML = model.get("html");
    const same = [...el.querySelectorAll("button, [data-name]")];
    const isSame = (one) => (one.name || one.dataset.name) === name && (one.value || one.dataset.value) === value;
    if (name) same.find(isSame)?.focus({ preventScroll: true });
    if (model.get("scrolls") && el.innerHTML) el.scrollIntoView({ block: "nearest" });
  };
  const mark = ({ target }) => {
    const row = target.closest?.("[data-row]")?.dataset.row, within = target.closest?.(".view") ?? el;
    for (const one of el.querySelectorAll("[data-row]")) {
      one.classList.toggle("hit", one.dataset.row === row && within.contains(one));
    }
  };
  const press = ({ target }) => {
    if (target.closest("summary, a")) return;
    const pressed = target.closest("button[name], [data-name]") ?? target.closest("tr")?.querySelector("button[name]");
    if (pressed) model.send({ name: pressed.name || pressed.dataset.name, value: pressed.value || pressed.dataset.value });
  };
  for (const kind of ["mouseover", "focusin", "mouseleave"]) el.addEventListener(kind, mark);
  el.addEventListener("click", press);
  el.addEventListener("keydown", (event) => {
    event.stopPropagation(); // JupyterLab's notebook would take Enter
    if (!["Enter", " "].includes(event.key) || !event.target.matches("[data-name]")) return;
    event.preventDefault();
    press(event);
  });
  model.on("change:html", draw);
  draw();
  return () => model.off("change:html", draw);
}
export default { render };
