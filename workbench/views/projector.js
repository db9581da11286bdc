// Puts the notebook in which it is shown into the projector's mode; the latest of a notebook decides.

const latest = new WeakMap(); // notebook -> the widget that decides

function render({ model, el }) {
  const place = el.closest(".jp-NotebookPanel") ?? document.body;
  const isDarkPage = () => document.body.dataset.jpThemeLight === "false" ||
    document.body.classList.contains("vscode-dark");
  const show = () => {
    if (latest.get(place) !== el) return;
    const theme = model.get("theme"), isOn = theme !== "off";
    const isDark = theme === "dark" || (theme === "auto" && isDarkPage());
    place.classList.toggle("workbench-projector", isOn);
    place.classList.toggle("workbench-dark", isOn && isDark);
    el.textContent = isOn ? "Projector mode: views.projector(False) ends it." : "Projector mode has ended.";
  };
  latest.set(place, el);
  // The style arrives later than this; figures then measure their place again.
  const widths = new ResizeObserver(() => dispatchEvent(new Event("resize")));
  widths.observe(el);
  const themes = new MutationObserver(show);
  themes.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
  model.on("change:theme", show);
  show();
  return () => {
    themes.disconnect();
    widths.disconnect();
    model.off("change:theme", show);
    if (latest.get(place) !== el) return;
    latest.delete(place);
    place.classList.remove("workbench-projector", "workbench-dark");
    requestAnimationFrame(() => dispatchEvent(new Event("resize")));
  };
}
export default { render };
