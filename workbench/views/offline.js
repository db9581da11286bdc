const encoders = JSON.parse(document.getElementById("encoders").textContent)
  .map((given) => (given.config ? new BertEncoder(given) : new WordOverlap(given)));
const [query, targets, status] = ["query", "targets", "status"].map((id) => document.getElementById(id));
const known = encoders.map(() => new Map()), pause = () => new Promise((resume) => setTimeout(resume));
const ranking = document.getElementById("ranking"), charts = document.getElementById("lines");
const vote = new Vote(() => show());
const SHOWN = 50; // targets in the table, the first by your order or the first encoder; all have ranks
const noted = new Map(); // sentence -> what the vectors do not tell of it
let latest = 0;

function notesOf(sentence) {
  if (!noted.has(sentence)) {
    const notes = encoders.map((one) => [one.label, one.notes(sentence)]).filter(([, note]) => note);
    noted.set(sentence, notes.map(([label, note]) => `${label}: ${note}`).join("; "));
  }
  return noted.get(sentence);
}

function ranksOf(cosines) { // cosine -> its rank; equal cosines share the mean of theirs
  const ranks = new Map(), sorted = [...cosines].sort((a, b) => b - a);
  for (let first = 0, last; first < sorted.length; first = last) {
    for (last = first; sorted[last] === sorted[first]; last++);
    ranks.set(sorted[first], (first + last + 1) / 2);
  }
  return ranks;
}

const written = (cosine) => cosine.toFixed(3).replace(/^-(?=0\.0*$)/, ""); // what rounds to nothing has no sign

function cell(kind, text, small) {
  const made = document.createElement(kind);
  made.append(kind === "td" && small === undefined ? Object.assign(document.createElement("div"), { textContent: text, dir: "auto" }) : text);
  made.className = kind === "th" ? "number heading" : small === undefined ? "text" : "number";
  if (kind === "th") made.scope = "col";
  if (small !== undefined) {
    made.append(document.createElement("br"), Object.assign(document.createElement("small"), { textContent: small }));
  }
  return made;
}

async function rank() {
  const turn = ++latest, lines = [...new Set(targets.value.split("\n").filter((line) => line.trim()))];
  const sentences = query.value.trim() && lines.length ? [query.value, ...lines] : [];
  const table = document.createElement("table"), isCompared = vote.state === "compared";
  vote.update(lines);
  if (!sentences.length || vote.state === "voting") {
    status.textContent = sentences.length ? "" : "Type a query and at least one target.";
    ranking.replaceChildren();
    charts.replaceChildren();
    return;
  }
  ranking.classList.add("old");
  for (const [place, encoder] of encoders.entries()) {
    for (const [done, sentence] of sentences.entries()) {
      if (known[place].has(sentence)) continue;
      status.textContent = `${encoder.label}: sentence ${done + 1} of ${sentences.length}`;
      await pause(); // what is typed meanwhile comes first
      if (turn !== latest) return;
      known[place].set(sentence, encoder.encode(sentence));
    }
  }
  ranking.replaceChildren(table);
  charts.replaceChildren();
  ranking.classList.remove("old");
  const head = table.createTHead().insertRow();
  const rows = lines.map((line) => ({
    line, cosines: encoders.map((one, place) => one.cosine(known[place].get(sentences[0]), known[place].get(line))),
  }));
  const broken = encoders.find((_, i) => rows.some(({ cosines }) => Number.isNaN(cosines[i])));
  if (broken) throw new Error(`${broken.label} gives vectors that are not finite: its weights have diverged.`);
  rows.sort((a, b) => (isCompared && vote.place(a.line) - vote.place(b.line)) || b.cosines[0] - a.cosines[0]);
  table.className = "ranks";
  head.append(cell("th", "target"), ...(isCompared ? [cell("th", "you")] : []), ...encoders.map((encoder) => cell("th", encoder.label)));
  const ranks = encoders.map((_, which) => ranksOf(rows.map(({ cosines }) => cosines[which])));
  for (const { line, cosines } of rows.slice(0, SHOWN)) {
    const text = cell("td", line);
    text.append(Object.assign(document.createElement("small"), { textContent: notesOf(line) }));
    const own = vote.place(line), cells = cosines.map((one, i) => cell("td", ranks[i].get(one), written(one)));
    for (const [i, one] of isCompared ? cells.entries() : []) {
      const move = own - ranks[i].get(cosines[i]), share = Math.abs(move) / Math.max(1, rows.length - 1);
      one.classList.add(`shade${move && [1 / 6, 1 / 3, 1 / 2, 1].findIndex((limit) => share <= limit + 1e-9) + 1}`);
      if (move) one.firstChild.after(` ${move > 0 ? "▲" : "▼"}${Math.abs(move)}`);
    }
    table.insertRow().append(text, ...(isCompared ? [cell("td", own, "")] : []), ...cells);
  }
  status.textContent = "Rank 1 is the nearest; below each rank is the cosine.";
  if (rows.length > SHOWN) status.textContent += ` The first ${SHOWN} of ${rows.length} targets.`;
  if (notesOf(sentences[0])) status.textContent += ` The query: ${notesOf(sentences[0])}.`;
  if (!isCompared) return;
  status.textContent += " ▲ ▼: so many places higher or lower than by you. tau (Kendall): 1 is your order, -1 its reverse.";
  for (const [i, { label }] of encoders.entries()) {
    const own = rows.map(({ line }) => vote.place(line)), given = rows.map(({ cosines }) => ranks[i].get(cosines[i]));
    const { tau, crossed, pairs } = kendall(own, given);
    const agreement = Number.isNaN(tau) ? "no order to compare" : `tau ${tau.toFixed(2)}`;
    charts.append(crossings(label, own, given, `${label}: ${agreement}, ${crossed} of ${pairs} pairs in another order`));
  }
  vote.reveal();
}
const show = () => rank().catch((problem) => (status.textContent = String(problem)));
for (const field of [query, targets]) {
  field.addEventListener("input", () => {
    vote.ask();
    show();
  });
}
window.encoders = encoders;
addEventListener("pageshow", show); // after the browser has brought back what was typed
