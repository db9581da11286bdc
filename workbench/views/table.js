// A table over plain columns: the browser sorts, searches, limits and walks through it without the kernel.
// Texts enter the page as text, never as HTML. Only the rows in sight are elements of the page.

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
};
const numbers = (view, Type) => new Type(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
const shade = (share) => Math.min(4, Math.ceil(6 * Math.abs(share) - 1e-6));
const written = (value, digits) => (digits === undefined ? `${+value.toPrecision(6)}` : value.toFixed(digits));
const moved = (error) => {
  const percent = Math.abs(error) < 0.095 ? Math.round(1000 * error) / 10 : Math.round(100 * error);
  return percent === 0 ? "" : `${percent > 0 ? "▲" : "▼"}${Math.abs(percent)}%`;
};

function render({ model, el }) {
  el.classList.add("workbench-table");
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take arrow keys and letters for its cells
  const HIGH = model.get("row_height");
  let columns, data, count, texts, rows, words, first, at = -1;
  const isText = (name) => Array.isArray(data[name]);
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  const read = () => {
    const every = Object.entries({ ...model.get("data"), ...model.get("extra") });
    data = Object.fromEntries(every.map(([name, one]) => [name, Array.isArray(one) ? one : numbers(one, Float32Array)]));
    columns = model.get("columns").filter(({ name }) => data[name]);
    count = every.length ? data[every[0][0]].length : 0;
    texts = null;
  };
  const hasWords = () => {
    if (model.get("asks_kernel")) {
      const { rows: found } = model.get("found");
      const kept = new Set(found ? numbers(found, Int32Array) : []);
      return (row) => kept.has(row);
    }
    const searched = Object.keys(data).filter(isText);
    const joined = (_, row) => searched.map((name) => data[name][row]).join("\n").toLowerCase();
    texts ??= Array.from({ length: count }, joined);
    return (row) => words.every((word) => texts[row].includes(word));
  };
  const list = () => {
    words = model.get("search").toLowerCase().split(/\s+/).filter(Boolean);
    rows = [...Array(count).keys()];
    for (const [name, [low, high]] of Object.entries(model.get("limits"))) {
      const values = data[name];
      if (!values) continue;
      const [least, most] = [low === null ? -Infinity : Math.fround(low), high === null ? Infinity : Math.fround(high)];
      if (low !== null || high !== null) rows = rows.filter((row) => values[row] >= least && values[row] <= most);
    }
    if (words.length) rows = rows.filter(hasWords());
    const [name, descending] = model.get("sort");
    if (data[name]) {
      const size = model.get("columns").find((column) => column.name === name)?.error;
      const values = size ? data[size].map(Math.abs) : data[name], sign = descending ? -1 : 1;
      rows.sort((a, b) => {
        const [x, y] = [values[a], values[b]];
        return x === y ? a - b : x !== x ? (y !== y ? a - b : 1) : y !== y ? -1 : x < y ? -sign : sign; // NaN last
      });
    }
    at = rows.indexOf(model.get("chosen"));
    const counted = `${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")} ${model.get("label")}`;
    status.textContent = counted + (rows.length ? model.get("note") : "; remove a word or a limit");
    table.setAttribute("aria-rowcount", rows.length + 1);
  };

  const marked = (text) => {
    const span = make("span", { class: "clamped", title: text.slice(0, 1000) });
    const shown = text.slice(0, 300); // two lines have room for less
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    const parts = pattern ? shown.split(new RegExp(`(${pattern})`, "gi")) : [shown];
    parts.forEach((part, place) => span.append(place % 2 ? make("mark", {}, part) : part));
    return span;
  };
  const cell = ({ name, digits, suffix = "", error, score }, row) => {
    const value = data[name][row];
    if (isText(name)) return make("td", { class: "text" }, marked(value));
    const text = Number.isNaN(value) ? "" : written(value, digits) + suffix;
    if (!error) return make("td", { class: "number" }, text);
    const share = data[error][row], scored = data[score] ? [make("small", {}, data[score][row].toFixed(3))] : [];
    const change = scored.length ? ` ${moved(share)}` : make("div", {}, moved(share));
    return make("td", { class: `number shade${shade(share)}` }, make("b", {}, text), change, ...scored);
  };
  const line = (row, place) => {
    const tr = make("tr", {
      "data-row": row,
      "aria-rowindex": place + 2,
      "aria-selected": `${place === at}`,
      tabindex: place === Math.max(at, 0) ? 0 : -1,
    });
    if (model.get("ticks")) {
      const name = data.name?.[row] ?? `row ${place + 1}`, checked = model.get("ticked").includes(row);
      const box = make("input", { type: "checkbox", "aria-label": name, tabindex: -1 });
      box.checked = checked;
      tr.append(make("td", {}, box));
    }
    tr.append(...columns.map((column) => cell(column, row)));
    return tr;
  };
  const draw = (always) => {
    const start = Math.max(0, Math.floor(frame.scrollTop / HIGH) - 10);
    if (!always && Math.abs(start - first) < 5) return;
    first = start;
    const end = Math.min(rows.length, start + Math.ceil((frame.clientHeight || 400) / HIGH) + 20);
    const gap = (height) => make("tr", { "aria-hidden": "true", style: `height:${height}px` }, make("td"));
    const focused = body.contains(el.getRootNode().activeElement);
    const lines = rows.slice(start, end).map((row, place) => line(row, start + place));
    body.replaceChildren(
      ...(start ? [gap(start * HIGH)] : []),
      ...lines,
      ...(end < rows.length ? [gap((rows.length - end) * HIGH)] : []),
    );
    if (focused) body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  };

  const head = () => {
    const field = (name, title, end) =>
      make("input", {
        ...{ type: "number", step: "any", "data-limit": name, "data-end": end, placeholder: end ? "≤" : "≥" },
        "aria-label": `${title} ${end ? "to" : "from"}`,
      });
    const headings = columns.map(({ name, title = name, hover = title, limit }) => {
      const button = make("button", { "data-sort": name, title: hover }, title);
      const fields = limit ? [make("div", {}, field(name, title, 0), field(name, title, 1))] : [];
      return make("th", { scope: "col", class: isText(name) ? "text" : "" }, button, ...fields);
    });
    thead.replaceChildren(make("tr", {}, ...(model.get("ticks") ? [make("th", {}, "✓")] : []), ...headings));
    update();
  };
  const update = () => {
    const [name, descending] = model.get("sort"), limits = model.get("limits");
    for (const button of thead.querySelectorAll("[data-sort]")) {
      const sorted = button.dataset.sort === name ? (descending ? "descending" : "ascending") : "none";
      button.parentNode.setAttribute("aria-sort", sorted);
    }
    for (const input of thead.querySelectorAll("[data-limit]")) {
      const value = limits[input.dataset.limit]?.[+input.dataset.end] ?? null;
      if ((input.value === "" ? null : +input.value) !== value) input.value = value ?? "";
    }
  };

  const reveal = () => {
    const top = at * HIGH, room = frame.clientHeight - thead.clientHeight - HIGH;
    if (at < 0 || room <= 0) return;
    if (top < frame.scrollTop) frame.scrollTop = top;
    else if (top > frame.scrollTop + room) frame.scrollTop = top - room;
  };
  const choose = (place) => {
    at = Math.max(0, Math.min(rows.length - 1, place));
    set({ chosen: rows[at] ?? -1 });
    reveal();
    draw(true);
    body.querySelector("[aria-selected=true]")?.focus({ preventScroll: true });
  };
  const tick = (row) => {
    const ticked = new Set(model.get("ticked"));
    ticked.delete(row) || ticked.add(row);
    set({ ticked: [...ticked].sort((a, b) => a - b) });
  };

  const search = make("input", { type: "search", placeholder: "words in any order", "aria-label": "search" });
  const status = make("span", { role: "status", "aria-live": "polite" });
  const thead = make("thead"), body = make("tbody");
  const table = make("table", { role: "grid", "aria-label": model.get("label") }, thead, body);
  const frame = make("div", { class: "frame", style: `--row:${HIGH}px;max-height:${model.get("height")}px` }, table);
  el.append(make("div", { class: "bar" }, search, status), frame);

  search.addEventListener("input", () => set({ search: search.value }));
  frame.addEventListener("scroll", () => draw(false));
  thead.addEventListener("click", ({ target }) => {
    const name = target.closest("[data-sort]")?.dataset.sort;
    if (!name) return;
    const [now, descending] = model.get("sort");
    set({ sort: [name, name === now ? !descending : !isText(name)] });
  });
  thead.addEventListener("input", ({ target }) => {
    const { limit, end } = target.dataset;
    const ends = [...(model.get("limits")[limit] ?? [null, null])];
    ends[+end] = target.value === "" ? null : +target.value;
    set({ limits: { ...model.get("limits"), [limit]: ends } });
  });
  body.addEventListener("click", ({ target }) => {
    const row = target.closest("[data-row]")?.dataset.row;
    if (row === undefined) return;
    if (model.get("ticks")) tick(+row);
    choose(rows.indexOf(+row));
  });
  el.addEventListener("keydown", (event) => {
    event.stopPropagation(); // JupyterLab's notebook would take Enter
    const row = event.target.closest("[data-row]")?.dataset.row;
    const place = row === undefined ? -1 : rows.indexOf(+row);
    const page = Math.max(1, Math.floor(frame.clientHeight / HIGH) - 2);
    const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
    if (event.target === search && event.key === "ArrowDown" && rows.length) choose(Math.max(at, 0));
    else if (place >= 0 && steps[event.key]) choose(place + steps[event.key]);
    else if (place >= 0 && model.get("ticks") && [" ", "Enter"].includes(event.key)) tick(+row);
    else return;
    event.preventDefault();
  });

  const refresh = () => {
    list();
    update();
    draw(true);
  };
  const fromTop = () => {
    frame.scrollTop = 0;
    refresh();
  };
  const searched = () => {
    if (search.value !== model.get("search")) search.value = model.get("search");
    if (!model.get("asks_kernel") || !model.get("search").trim()) fromTop();
  };
  const all = () => {
    read();
    head();
    refresh();
    reveal();
  };
  const reordered = () => {
    for (const [name, values] of Object.entries(model.get("extra"))) data[name] = numbers(values, Float32Array);
    fromTop();
  };
  const chosen = () => {
    at = rows.indexOf(model.get("chosen"));
    reveal();
    draw(true);
  };
  const listeners = {
    ...{ search: searched, found: fromTop, sort: fromTop, limits: fromTop, chosen, ticked: () => draw(true) },
    ...{ data: all, extra: reordered, columns: all, note: list },
  };
  for (const [name, listener] of Object.entries(listeners)) model.on(`change:${name}`, listener);
  search.value = model.get("search");
  all();
  const sized = new ResizeObserver(() => {
    reveal();
    draw(true);
  }); // JupyterLab draws before the element has a size
  sized.observe(frame);
  return () => {
    sized.disconnect();
    for (const [name, listener] of Object.entries(listeners)) model.off(`change:${name}`, listener);
  };
}
export default { render };
