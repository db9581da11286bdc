// Puts claim, idea and equations of a notebook on the first sheet, its exercises on the second.
const main = document.querySelector("main");
for (const one of main.querySelectorAll(".anchor-link")) one.remove();
// Of code only what a student completes: a function with its first line, or an answer.
function stubs(cell) {
  const [stub] = cell.querySelector(".input pre")?.textContent.match(/^(def my_.*\n.*|answer = .*)/) ?? [];
  return stub ? [Object.assign(document.createElement("pre"), { textContent: stub })] : [];
}
const cells = [...main.children].map((cell) => {
  const text = cell.querySelector(".text_cell_render");
  return text ? [...text.children] : stubs(cell);
});
const ABOUT_CODE = /next cell|last lines? compare|\bcells?\b|Set answer/; // of what is not on paper
const isEquation = (part) => part.querySelector?.("math[display=block]");

function sentences(paragraph) { // as lists of nodes
  const found = [[]];
  for (const node of [...paragraph.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE) { found.at(-1).push(node); continue; }
    const [first, ...more] = node.data.split(/(?<=[.:?])\s+(?=[A-Z]|$)/);
    found.at(-1).push(new Text(first));
    for (const one of more) found.push([new Text(one)]);
  }
  return found.map((nodes) => ({ nodes, text: nodes.map((node) => node.textContent).join("").trim() }));
}
function keep(paragraph, isKept) {
  if (paragraph.tagName !== "P" || isEquation(paragraph) || paragraph.querySelector("img")) return paragraph;
  const made = document.createElement("p");
  for (const { nodes, text } of sentences(paragraph)) {
    if (text && isKept(nodes, text)) made.append(...nodes, " ");
  }
  return made;
}
const isOnPaper = (nodes, text) => !ABOUT_CODE.test(text);
const describes = (nodes, text) => isOnPaper(nodes, text) && !/\bbelow\b|:$/.test(text); // no figure of the notebook
// Beside an equation only what explains its symbols, not what is to be seen in a figure.
const explains = (nodes, text) => isOnPaper(nodes, text) &&
  (/:$/.test(text) || nodes.some((node) => ["MATH", "STRONG"].includes(node.tagName?.toUpperCase())));

const parts = { top: [], idea: [], equations: [], exercises: [] };
let section = "";
for (const cell of cells) {
  const last = cell.findLastIndex(isEquation);
  let heading = -1;
  cell.forEach((part, row) => { if (/^H[23]$/.test(part.tagName) && row < last) heading = row; });
  for (const [row, part] of cell.entries()) {
    if (part.tagName === "H1") parts.top.push(part);
    else if (part.tagName === "H2") section = part.textContent;
    else if (!section && part.tagName === "P" && !/^Executed|^Source/.test(part.textContent)) parts.top.push(part);
    else if (section === "The idea" && last < 0) parts.idea.push(keep(part, describes));
    else if (section === "Exercises") parts.exercises.push(keep(part, isOnPaper));
    else if (row > heading && row <= last + (cell[last + 1]?.tagName === "TABLE") && !/^H/.test(part.tagName)) {
      parts.equations.push(keep(part, explains));
    }
  }
}
function sheet(...groups) {
  const made = document.createElement("div");
  made.className = "sheet";
  for (const [title, group] of groups) {
    if (title && group.length) made.append(Object.assign(document.createElement("h2"), { textContent: title }));
    made.append(...group);
  }
  return made;
}
function room() {
  return Object.assign(document.createElement("div"), { className: "room" });
}
const asked = [];
for (const part of parts.exercises) {
  if (/^\d+\. /.test(part.textContent) && asked.length) asked.push(room());
  asked.push(part);
}
const who = document.createElement("p");
who.className = "who";
who.innerHTML = "<span>Name:</span><span>Date:</span>";
const first = sheet(["", [who, ...parts.top]], ["The idea", parts.idea], ["Equations", parts.equations], ["Notes", [room()]]);
const second = sheet(["Exercises", [...asked, room()]]);
main.replaceChildren(...(asked.length ? [first, second] : [first]));
document.title = document.querySelector("h1")?.textContent ?? document.title;

const fits = (one) => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth;
await document.fonts.ready;
await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
for (const one of main.children) {
  for (let size = 11; !fits(one) && size > 7; size -= 0.25) one.style.fontSize = `${size}pt`;
}
document.body.dataset.ready = "";
