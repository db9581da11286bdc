// A table over plain columns: the browser sorts, searches, limits and walks through it without the kernel.
// Texts enter the page as text, never as HTML. Only the rows in sight are elements of the page.

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const shade = (share) => Math.min(4, Math.ceil(6 * Math.abs(share) - 1e-6));
const moved = (error) => {
  const percent = Math.abs(error) < 0.095 ? Math.round(1000 * error) / 10 : Math.round(100 * error);
  return percent === 0 ? "" : `${percent > 0 ? "▲" : "▼"}${Math.abs(percent)}%`;
};

function render({ model, el }) {
  el.classList.add("workbench-table");
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take arrow keys and letters for its cells
  const get = (name) => model.get(name), height = 40; // of a row, in pixels
  let data, columns, count, texts, rows, words, first, at, reached;
  const isText = (name) => Array.isArray(data[name]);
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  const read = () => {
    const every = Object.entries({ ...get("data"), ...get("extra") });
    const numbers = (view) => new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
    data = Object.fromEntries(every.map(([name, one]) => [name, Array.isArray(one) ? one : numbers(one)]));
    count = every.length ? data[every[0][0]].length : 0;
    texts = null;
  };
  const list = () => {
    words = get("search").toLowerCase().split(/\s+/).filter(Boolean);
    rows = [...Array(count).keys()];
    for (const [name, [low, high]] of Object.entries(get("limits")).filter(([name]) => data[name])) {
      const values = data[name];
      if (low !== null) rows = rows.filter((row) => values[row] >= low);
      if (high !== null) rows = rows.filter((row) => values[row] <= high);
    }
    if (words.length) {
      const searched = Object.keys(data).filter(isText);
      const joined = (_, row) => searched.map((name) => data[name][row]).join("\n").toLowerCase();
      texts ??= Array.from({ length: count }, joined);
      rows = rows.filter((row) => words.every((word) => texts[row].includes(word)));
    }
    const [name, descending] = get("sort");
    if (data[name]) {
      const values = data[name], sign = descending ? -1 : 1, last = Number.isNaN;
      rows.sort((a, b) => {
        const [x, y] = [values[a], values[b]];
        return last(x) || last(y) ? last(x) - last(y) || a - b : x < y ? -sign : x > y ? sign : a - b;
      });
    }
    frame.scrollTop = 0;
    table.setAttribute("aria-rowcount", rows.length + 1);
  };

  const marked = (text) => {
    const span = make("span", { class: "clamped", dir: "auto", title: text.slice(0, 1000) });
    const shown = text.slice(0, 300); // two lines have room for less
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    const parts = pattern ? shown.split(new RegExp(`(${pattern})`, "gi")) : [shown];
    parts.forEach((part, place) => span.append(place % 2 ? make("mark", {}, part) : part));
    return span;
  };
  const cell = ({ name, digits, error }, row) => {
    const value = data[name][row];
    if (isText(name)) return make("td", { class: "text" }, marked(value));
    const rounded = digits == null ? `${+value.toPrecision(6)}` : value.toFixed(digits);
    const written = Number.isInteger(value) ? value.toFixed(digits ?? 0) : rounded; // a seed has all its digits
    const text = Number.isNaN(value) ? "" : written.replace(/^-(?=0\.?0*$)/, ""); // what rounds to nothing has no sign
    if (!error) return make("td", { class: "number" }, text);
    const share = data[error][row];
    return make("td", { class: `number shade${shade(share)}` }, make("b", {}, text), make("div", {}, moved(share)));
  };
  const line = (row, place) => {
    const state = { "aria-selected": place === at, tabindex: place === reached ? 0 : -1 };
    const tr = make("tr", { "data-row": row, "aria-rowindex": place + 2, ...state });
    if (get("ticks")) {
      const tickBox = make("input", { type: "checkbox", "aria-label": `row ${place + 1}`, tabindex: -1 });
      tickBox.checked = get("ticked").includes(row);
      tr.append(make("td", {}, tickBox));
    }
    if (get("stars")) {
      const has = get("ticked").includes(row), texts = { "aria-label": `mark row ${place + 1}`, title: "mark (key: m)" };
      tr.append(make("td", {}, make("button", { "data-star": row, "aria-pressed": has, tabindex: -1, ...texts }, has ? "★" : "☆")));
    }
    tr.append(...columns.map((column) => cell(column, row)));
    return tr;
  };
  const draw = () => {
    first = Math.max(0, Math.floor(frame.scrollTop / height) - 10);
    const end = Math.min(rows.length, first + Math.ceil((frame.clientHeight || 400) / height) + 20);
    reached = at >= first && at < end ? at : first; // by Tab: the chosen row, if it is drawn
    const space = (absent) => make("tr", { "aria-hidden": true, style: `height:${absent * height}px` }, make("td"));
    const focused = body.contains(el.getRootNode().activeElement);
    const lines = rows.slice(first, end).map((row, place) => line(row, first + place));
    const [above, below] = [first, rows.length - end].map((absent) => (absent ? [space(absent)] : []));
    body.replaceChildren(...above, ...lines, ...below);
    if (focused) body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  };

  const drawHead = () => {
    columns = get("columns").filter(({ name }) => data[name]);
    const field = (name, title, end) => {
      const texts = { placeholder: "≥≤"[end], "aria-label": `${title} ${["from", "to"][end]}` };
      return make("input", { type: "number", step: "any", "data-limit": name, "data-end": end, ...texts });
    };
    const headings = columns.map(({ name, title = name, hover = title, limit }) => {
      const button = make("button", { "data-sort": name, title: hover }, title);
      const fields = limit ? [make("div", {}, field(name, title, 0), field(name, title, 1))] : [];
      return make("th", { scope: "col", class: isText(name) ? "text" : "" }, button, ...fields);
    });
    const signs = [["ticks", "✓"], ["stars", "★"]].filter(([name]) => get(name)).map(([, sign]) => make("th", {}, sign));
    thead.replaceChildren(make("tr", {}, ...signs, ...headings));
  };
  const drawChoices = () => {
    if (box.value !== get("search")) box.value = get("search");
    for (const button of thead.querySelectorAll("[data-sort]")) {
      const [name, descending] = get("sort"), sorted = descending ? "descending" : "ascending";
      button.parentNode.setAttribute("aria-sort", button.dataset.sort === name ? sorted : "none");
    }
    for (const input of thead.querySelectorAll("[data-limit]")) {
      const value = get("limits")[input.dataset.limit]?.[input.dataset.end] ?? null;
      if ((input.value === "" ? null : +input.value) !== value) input.value = value ?? "";
    }
    const counted = `${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")} ${get("label")}`;
    const stars = get("stars") && get("ticked").length ? `; ${get("ticked").length} marked` : "";
    status.textContent = counted + stars + (rows.length ? get("note") : "; remove a word or a limit");
  };

  const reveal = () => {
    const top = at * height, room = frame.clientHeight - thead.clientHeight - height;
    if (at < 0 || room <= 0) return;
    frame.scrollTop = Math.min(top, Math.max(frame.scrollTop, top - room));
  };
  const update = (...names) => {
    const changed = (...some) => some.some((name) => names.includes(name));
    if (changed("data", "extra")) read();
    if (changed("data", "columns")) drawHead();
    if (changed("data", "extra", "search", "sort", "limits")) list();
    at = rows.indexOf(get("chosen"));
    if (changed("data", "chosen")) reveal();
    drawChoices();
    draw();
  };
  const choose = (place) => {
    set({ chosen: rows[Math.max(0, Math.min(rows.length - 1, place))] ?? -1 });
    queueMicrotask(() => { // once drawn; a row that was chosen before is no change, and may be out of sight
      const drawn = () => body.querySelector("[aria-selected=true]");
      if (!drawn()) {
        reveal();
        draw();
      }
      drawn()?.focus({ preventScroll: true });
    });
  };
  const tick = (row) => {
    const ticked = new Set(get("ticked"));
    ticked.delete(row) || ticked.add(row);
    set({ ticked: [...ticked].sort((a, b) => a - b) });
  };

  const box = make("input", { type: "search", placeholder: "words in any order", "aria-label": "search" });
  const status = make("span", { role: "status", "aria-live": "polite" });
  const thead = make("thead"), body = make("tbody");
  const table = make("table", { role: "grid", "aria-label": get("label") }, thead, body);
  const frame = make("div", { class: "frame", style: `--row:${height}px;max-height:${get("height")}px` }, table);
  el.append(make("div", { class: "bar" }, box, status), frame);

  box.addEventListener("input", () => set({ search: box.value }));
  frame.addEventListener("scroll", () => {
    if (Math.abs(Math.max(0, Math.floor(frame.scrollTop / height) - 10) - first) >= 5) draw();
  });
  thead.addEventListener("click", ({ target }) => {
    const name = target.closest("[data-sort]")?.dataset.sort, [now, descending] = get("sort");
    if (name) set({ sort: [name, name === now ? !descending : !isText(name)] });
  });
  thead.addEventListener("input", ({ target }) => {
    const { limit, end } = target.dataset, ends = [...(get("limits")[limit] ?? [null, null])];
    ends[end] = target.value === "" ? null : +target.value;
    set({ limits: { ...get("limits"), [limit]: ends } });
  });
  body.addEventListener("click", ({ target }) => {
    const row = target.closest("[data-row]")?.dataset.row;
    if (row === undefined) return;
    if (get("ticks") || target.closest("[data-star]")) tick(+row);
    choose(rows.indexOf(+row));
  });
  el.addEventListener("keydown", (event) => {
    event.stopPropagation(); // JupyterLab's notebook would take Enter
    const row = event.target.closest("[data-row]")?.dataset.row, place = row === undefined ? -1 : rows.indexOf(+row);
    const page = Math.max(1, Math.floor(frame.clientHeight / height) - 2);
    const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
    if (event.target === box && event.key === "ArrowDown" && rows.length) choose(Math.max(at, 0));
    else if (place >= 0 && steps[event.key]) choose(place + steps[event.key]);
    else if (place >= 0 && get("ticks") && [" ", "Enter"].includes(event.key)) tick(+row);
    else if (place >= 0 && get("stars") && event.key.toLowerCase() === "m" && !event.ctrlKey && !event.metaKey) tick(+row);
    else return;
    event.preventDefault();
  });

  let due = []; // the traits that changed, together in one message or not, are drawn once
  const traits = ["data", "extra", "columns", "search", "sort", "limits", "chosen", "ticked", "note"];
  const listeners = traits.map((name) => [`change:${name}`, () => {
    if (due.push(name) === 1) queueMicrotask(() => update(...due.splice(0)));
  }]);
  for (const [event, listener] of listeners) model.on(event, listener);
  update("data");
  const sized = new ResizeObserver(() => update("chosen")); // JupyterLab draws before the element has a size
  sized.observe(frame);
  return () => {
    sized.disconnect();
    for (const [event, listener] of listeners) model.off(event, listener);
  };
}
export default { render };
