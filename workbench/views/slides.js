// Groups the cells of a notebook into slides, each of which begins with a heading or an exercise.
const main = document.querySelector("main"), root = document.documentElement, slides = [];
const named = (id) => document.querySelector(`nav #${id}`); // a heading may have the same
const taken = new Set();
const isHeading = (part) => /^H[123]$/.test(part.tagName);
const isExercise = (part) => part.firstElementChild?.tagName === "STRONG" && /^\d+\. /.test(part.textContent);

function begins(part) {
  const last = slides.at(-1);
  if (!last || isHeading(part) || part.tagName === "IMG" || last.lastChild.tagName === "IMG") return true; // a drawing needs all the room
  if (/\bguess = /.test(last.lastChild.querySelector?.(".input")?.textContent)) return true; // the answer is not on the slide of the guess
  return isExercise(part) && ![...last.children].every(isHeading); // a heading is no slide of its own
}
function begin(part) {
  const slide = document.createElement("section");
  const own = `slide-${slides.length + 1}`;
  slide.id = isHeading(part) && part.id && !taken.has(part.id) ? part.id : own;
  taken.add(slide.id);
  slide.tabIndex = 0; // a long slide is scrolled by keys
  part.removeAttribute?.("id");
  slides.push(slide);
}
function fold(input) {
  const folded = document.createElement("details");
  folded.className = "code";
  folded.open = input.textContent.includes("# your code"); // what a student completes
  folded.innerHTML = "<summary>code</summary>";
  input.replaceWith(folded);
  folded.append(input);
}
for (const cell of [...main.children]) {
  const text = cell.querySelector(".text_cell_render");
  for (const input of text ? [] : cell.querySelectorAll(".input")) fold(input);
  for (const part of text ? [...text.childNodes] : [cell]) {
    if (part.nodeType === Node.TEXT_NODE && !part.data.trim()) continue;
    if (begins(part)) begin(part);
    slides.at(-1).append(part);
  }
}
main.replaceChildren(...slides);
for (const one of document.querySelectorAll(".anchor-link")) one.remove();
for (const one of document.querySelectorAll(".output, pre")) one.tabIndex = 0; // if it is too wide
for (const corner of document.querySelectorAll("th:empty")) corner.replaceWith(document.createElement("td"));
document.title = document.querySelector("h1")?.textContent ?? document.title;

let place = 0;
function go(number, isQuiet = false) {
  place = Math.max(0, Math.min(slides.length - 1, number));
  for (const [row, slide] of slides.entries()) {
    slide.classList.toggle("current", row === place);
    slide.inert = row !== place;
    slide.setAttribute("aria-label", `slide ${row + 1} of ${slides.length}`);
    slide.setAttribute("role", "group");
  }
  named("place").textContent = `${place + 1} / ${slides.length}`;
  slides[place].focus({ preventScroll: true });
  if (!isQuiet) history.replaceState(null, "", `#${encodeURIComponent(slides[place].id)}`);
}
function follow() {
  const id = decodeURIComponent(location.hash.slice(1));
  go(Math.max(0, slides.findIndex((slide) => slide.id === id)), true);
}
function forward() { // a long slide is read to its end first
  const slide = slides[place], left = slide.scrollHeight - slide.clientHeight - slide.scrollTop;
  if (left > 8) slide.scrollBy({ top: 0.85 * slide.clientHeight });
  else go(place + 1);
}
function showCode() {
  const isShown = named("code").getAttribute("aria-pressed") !== "true";
  named("code").setAttribute("aria-pressed", isShown);
  for (const one of document.querySelectorAll("details.code")) one.open = isShown;
}
function changeTheme() {
  const isDark = root.classList.contains("dark") ||
    (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  root.classList.toggle("dark", !isDark);
  root.classList.toggle("light", isDark);
}
const keys = {
  ArrowRight: () => go(place + 1), ArrowLeft: () => go(place - 1), " ": forward,
  PageDown: forward, PageUp: () => go(place - 1), Home: () => go(0), End: () => go(slides.length - 1),
  c: showCode, t: changeTheme,
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
  if (event.key === " " && event.target.closest("button, summary, a")) return;
  if (event.key.startsWith("Arrow") && event.target !== slides[place] && scrollsSideways(event.target)) return;
  event.preventDefault();
  keys[event.key]();
});
for (const [id, act] of [["back", () => go(place - 1)], ["next", () => go(place + 1)], ["code", showCode], ["theme", changeTheme]]) {
  named(id).addEventListener("click", act);
}
let touched;
function scrollsSideways(part) { // a wide table or figure, which a finger moves
  for (let one = part; one && one !== main; one = one.parentElement) {
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible") return true;
  }
  return false;
}
main.addEventListener("touchstart", ({ touches, target }) => {
  const isSwipe = touches.length === 1 && visualViewport.scale < 1.01 && !scrollsSideways(target);
  touched = isSwipe ? touches[0] : null;
}, { passive: true });
main.addEventListener("touchend", ({ changedTouches: [{ clientX, clientY }] }) => {
  if (!touched) return;
  const across = clientX - touched.clientX, down = clientY - touched.clientY;
  if (Math.abs(across) > 60 && Math.abs(across) > 2 * Math.abs(down)) go(place - Math.sign(across));
});
addEventListener("hashchange", follow);

function scale() { // outputs have their own sizes, of which 12 pixels are the smallest
  const size = parseFloat(getComputedStyle(root).fontSize);
  root.style.setProperty("--zoom", innerWidth < 700 && size < 22 ? 1 : size / 11.9);
}
addEventListener("resize", scale);
addEventListener("beforeprint", () => { // a page each: a longer slide is made smaller
  root.classList.add("measured");
  scale();
  for (const slide of slides) slide.style.setProperty("--fit", Math.min(1, 690 / slide.scrollHeight));
  root.classList.remove("measured");
});
addEventListener("afterprint", scale);
scale();
follow();
window.workbenchPlotly?.then(() => dispatchEvent(new Event("resize")));
