// Shows what the kernel draws and tells it what the reader does. It makes no HTML of its own: the kernel has escaped
// every text, and knows all there is to know, so this file needs no more than to pass on and to keep the focus.

function render({ model, el }) {
  el.classList.add("workbench-look");
  el.dataset.kind = model.get("kind");
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take arrow keys and letters for its cells

  // A kernel that is gone answers nothing, and a page is told neither of that nor of what else a kernel is busy with.
  const silent = el.appendChild(document.createElement("p"));
  silent.className = "silent problem";
  silent.setAttribute("role", "status");
  let patience = 0;
  const hush = () => {
    silent.textContent = "no answer yet: the kernel is busy, or gone; if it is gone, start it and run the cell again";
  };
  const wait = () => {
    patience ||= setTimeout(hush, 5000);
  };
  const heard = () => {
    clearTimeout(patience);
    patience = 0;
    silent.textContent = "";
  };
  const send = async (content) => {
    try {
      await model.send(content);
    } catch {
      hush();
    }
  };

  // One message at a time; of what is done meanwhile the last of each name is sent, so that typing never queues up.
  const waiting = new Map();
  let busy = false;
  const flush = () => {
    busy = waiting.size > 0;
    el.setAttribute("aria-busy", busy);
    if (busy) send(Object.fromEntries(waiting));
    waiting.clear();
  };
  const tell = (name, value) => {
    waiting.set(name, value);
    wait(); // after a part of an answer too: the rest may never come
    if (!busy) flush();
  };

  // What stands now where `held` stood.
  const again = (part, held) => {
    const { tell, value } = held.dataset;
    if (tell) return part.querySelector(`[data-tell="${tell}"][data-value="${value}"]`);
    const same = [...part.querySelectorAll(`[name="${CSS.escape(held.name ?? "")}"]`)];
    return same.find((one) => one.value === held.value) ?? same[0];
  };
  const drawn = new Map();
  const draw = () => {
    heard();
    for (const [name, html] of Object.entries(model.get("parts"))) {
      if (drawn.get(name) === html) continue;
      const asked = name === "why" && drawn.has(name); // it may lie below the screen
      drawn.set(name, html);
      let part = el.querySelector(`[data-part="${name}"]`);
      if (!part) {
        part = el.appendChild(document.createElement("div"));
        part.dataset.part = name;
      }
      const held = part.contains(el.getRootNode().activeElement) ? el.getRootNode().activeElement : null;
      part.innerHTML = html;
      if (asked) part.scrollIntoView({ block: "nearest" });
      if (held) again(part, held)?.focus({ preventScroll: true });
    }
  };

  for (const kind of ["input", "change"]) {
    el.addEventListener(kind, ({ target }) => {
      if (!target.name || (kind === "change") !== ("late" in target.dataset)) return; // late: once it is left or Enter
      tell(target.name, target.type === "checkbox" ? target.checked : target.value);
    });
  }
  el.addEventListener("click", ({ target }) => {
    if (target.closest("input, select, textarea, summary, a")) return;
    const button = target.closest("button[name]") ?? target.closest("tr")?.querySelector("button[name]");
    if (button) tell(button.name, button.value);
    else press(target);
  });
  const press = (target) => {
    const pressed = target.closest("[data-tell]"); // part of a drawing, which has no buttons
    if (pressed) tell(pressed.dataset.tell, pressed.dataset.value);
  };
  el.addEventListener("keydown", (event) => {
    event.stopPropagation(); // JupyterLab's notebook would take Enter
    if (event.key === "Enter" && event.target.matches('textarea[data-rows="1"]')) event.preventDefault();
    if (["Enter", " "].includes(event.key) && event.target.matches("[data-tell]")) {
      event.preventDefault();
      press(event.target);
    }
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const list = step && event.target.closest("[data-walk]");
    if (!list) return;
    const all = [...list.querySelectorAll("button[name]")];
    const next = all[all.indexOf(event.target) + step];
    if (next) {
      next.focus();
      tell(next.name, next.value);
    }
    event.preventDefault();
  });

  // Whatever stands for one target, a row and a line, is marked together; another query has letters of its own.
  const mark = ({ target }) => {
    const row = target.closest?.("[data-row]")?.dataset.row;
    const within = target.closest?.(".view") ?? el;
    for (const one of el.querySelectorAll("[data-row]")) {
      one.classList.toggle("hit", one.dataset.row === row && within.contains(one));
    }
  };
  for (const kind of ["mouseover", "focusin"]) el.addEventListener(kind, mark);
  el.addEventListener("mouseleave", mark);

  const done = () => {
    heard();
    if (waiting.size > 0) wait();
    flush();
  };
  model.on("change:parts", draw);
  model.on("msg:custom", done);
  draw();
  send({}); // what stands there now: an update may have come before this listened, and is not sent again
  return () => {
    model.off("change:parts", draw);
    clearTimeout(patience);
    model.off("msg:custom", done);
  };
}

export default { render };
