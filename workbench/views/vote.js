// The reader's own order of the targets, and how far an encoder's agrees with it.

function kendall(a, b) { // tau-b: 1 for the same order, -1 for the reverse; ties count as in scipy
  let agreement = 0, ordered = 0, other = 0, crossed = 0;
  for (let i = 0; i < a.length; i++) {
    for (let j = 0; j < i; j++) {
      const x = Math.sign(a[i] - a[j]), y = Math.sign(b[i] - b[j]);
      agreement += x * y;
      ordered += x * x;
      other += y * y;
      crossed += x * y < 0;
    }
  }
  return { tau: agreement / Math.sqrt(ordered * other), crossed, pairs: (a.length * (a.length - 1)) / 2 };
}

class Vote {
  constructor(changed) {
    this.changed = changed;
    this.order = [];
    this.state = "off"; // then "voting", and "compared" once the encoders' orders are shown
    this.button = document.getElementById("vote");
    this.list = document.getElementById("own");
    this.button.addEventListener("click", () => this.go(this.state === "off" ? "voting" : "off"));
    document.getElementById("compare").addEventListener("click", () => this.go("compared"));
    if (location.hash === "#vote") this.state = "voting";
  }
  go(state) {
    this.state = state;
    this.isNew = true;
    this.changed();
  }
  ask() { // another question, of which nobody has compared an order yet
    if (this.state === "compared") this.state = "voting";
  }
  reveal() { // once the encoders' orders are there: on a phone they are below the fields
    if (this.isNew) {
      document.getElementById("ranking").focus({ preventScroll: true }); // the pressed button is hidden now
      document.getElementById("status").scrollIntoView();
    }
    this.isNew = false;
  }
  update(targets) { // distinct lines; new targets come last, from the end of the alphabet, which gives nothing away
    const before = new Set(this.order), now = new Set(targets);
    const added = targets.filter((line) => !before.has(line)).sort().reverse();
    const gone = this.order.filter((line) => !now.has(line));
    if (gone.length === 1 && added.length === 1) this.order[this.order.indexOf(gone[0])] = added[0]; // a line that is edited keeps its place
    else this.order = [...this.order.filter((line) => now.has(line)), ...added];
    this.button.setAttribute("aria-pressed", this.state !== "off");
    document.getElementById("voting").hidden = this.state === "off" || !this.order.length;
    document.getElementById("compare").hidden = this.state === "compared";
    const shown = this.state === "off" ? [] : this.order;
    this.list.replaceChildren(...shown.map((line, row) => this.item(line, row)));
  }
  item(line, row) {
    const item = document.createElement("li"), text = document.createElement("span");
    text.dir = "auto";
    text.textContent = line;
    item.append(text);
    for (const [name, sign, step] of [["up", "▲", -1], ["down", "▼", 1]]) {
      const button = document.createElement("button");
      button.textContent = sign;
      button.setAttribute("aria-label", `${name}: ${line}`);
      button.disabled = !(row + step in this.order);
      button.addEventListener("click", () => this.move(row, step));
      item.append(button);
    }
    return item;
  }
  move(row, step) {
    const [line] = this.order.splice(row, 1);
    this.order.splice(row + step, 0, line);
    this.changed();
    const buttons = [...this.list.children[row + step].querySelectorAll("button")];
    const same = buttons[step < 0 ? 0 : 1];
    (same.disabled ? buttons.find((one) => !one.disabled) : same).focus();
    document.getElementById("status").textContent = `Now at place ${row + step + 1} of ${this.order.length}: ${line}`;
  }
  place(line) {
    return this.order.indexOf(line) + 1;
  }
}

// Lines from the reader's places to those of an encoder: two that cross are a pair in another order.
function crossings(label, own, ranks, text) {
  const apart = 24, width = 200, height = apart * (own.length + 1), figure = document.createElement("figure");
  const lines = own.map((place, row) => {
    const from = apart * place, to = apart * ranks[row], isMoved = place !== ranks[row];
    return `<line x1="24" y1="${from}" x2="${width - 28}" y2="${to}" stroke="${isMoved ? "#D55E00" : "#0072B2"}" stroke-width="3"${isMoved ? ' stroke-dasharray="7 4"' : ""}/>` +
      `<text x="6" y="${from + 5}">${place}</text><text x="${width - 22}" y="${to + 5}">${ranks[row]}</text>`;
  });
  figure.innerHTML = `<figcaption></figcaption><svg role="img" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-size="15" fill="currentColor">${lines.join("")}</svg>`;
  figure.querySelector("svg").setAttribute("aria-label", `places by you and by ${label}`);
  figure.querySelector("figcaption").textContent = text;
  return figure;
}
