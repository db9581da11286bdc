const main = document.querySelector("main"), sections = [...main.children];
const links = [...document.querySelectorAll("nav li")];
const words = (section) => [...section.querySelectorAll("[data-words]")].map((one) => one.textContent).join("\n");
const texts = sections.map((section) => (words(section) || section.textContent).toLowerCase());
const open = () => { // a link of the list unfolds its section
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  named?.querySelector(":scope > details")?.setAttribute("open", "");
};
addEventListener("hashchange", open);
open();
const box = document.querySelector("input");
const filter = () => {
  const asked = box.value.toLowerCase().split(/\s+/);
  const matches = texts.map((text) => asked.every((word) => text.includes(word)));
  for (const one of [sections, links]) one.forEach((element, place) => (element.hidden = !matches[place]));
  document.querySelector("nav [role=status]").textContent = `${matches.filter(Boolean).length} of ${matches.length}`;
};
box.addEventListener("input", filter);
addEventListener("pageshow", () => box.value && filter()); // the browser brings back what was typed
addEventListener("beforeprint", () => {
  for (const one of main.querySelectorAll("section:not([hidden]) > details")) one.open = true;
});
