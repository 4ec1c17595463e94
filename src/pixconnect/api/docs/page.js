// What the documentation can do besides being read: search, copying, saying where one is, light and dark, and in a sandbox
// requests that are sent from the page. It asks no other address than the service's own, and keeps credentials in this tab only.
"use strict";

const root = document.documentElement;
const kept = (store, name) => { try { return store.getItem(name); } catch { return null; } };
const keep = (store, name, value) => { try { store.setItem(name, value); } catch { /* refused by the browser: not kept */ } };
const THEMES = ["auto", "light", "dark"];

// At once, before anything is painted.
function setTheme(theme) {
  if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
}
setTheme(THEMES.includes(kept(localStorage, "theme")) ? kept(localStorage, "theme") : "auto");

function make(tag, properties = {}, ...children) {
  const { data = {}, attributes = {}, ...own } = properties;
  const made = Object.assign(document.createElement(tag), own);
  Object.assign(made.dataset, data);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function offerThemes() {
  const button = document.getElementById("theme");
  const show = () => {
    const theme = root.dataset.theme ?? "auto";
    button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
    setTheme(next);
    keep(localStorage, "theme", next);
    show();
  });
  show();
}

function offerCopies() {
  for (const block of document.querySelectorAll(".sample")) {
    const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      const text = block.querySelector("code").textContent;
      button.textContent = await copy(text) ? "Copied" : "Select it and press Ctrl C";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
  widen();
  addEventListener("resize", widen);
}

/** Where a line is as wide as its box, Copy would cover its end. */
function widen() {
  for (const pre of document.querySelectorAll(".sample pre")) {
    pre.classList.remove("wide");
    pre.classList.toggle("wide", pre.scrollWidth > pre.clientWidth);
  }
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no https, or not allowed
  }
}

// Colours of what is in samples: members, other texts, numbers, comments. The page's own text stays as it is.
const TOKENS = /(?<comment>(?<![^\s])(?:#|\/\/) [^\n]*)|(?<member>"[^"\n]*"(?=:))|(?<text>"[^"\n]*"|'[^'\n]*')|(?<number>(?<![\w./:-])\d+(?:\.\d+)?(?![\w./:-]))/g;

function colourSamples() {
  if (!("highlights" in CSS)) return;
  const kinds = Object.fromEntries(["comment", "member", "text", "number"].map((kind) => [kind, new Highlight()]));
  for (const [kind, highlight] of Object.entries(kinds)) CSS.highlights.set(kind, highlight);
  const colour = (code) => {
    const node = code.firstChild;
    for (const found of node?.data.matchAll(TOKENS) ?? []) {
      const kind = Object.keys(kinds).find((name) => found.groups[name] !== undefined);
      const range = new StaticRange({ startContainer: node, startOffset: found.index, endContainer: node, endOffset: found.index + found[0].length });
      kinds[kind].add(range);
    }
  };
  // When it comes into sight: most of the page never does.
  const watch = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) { watch.unobserve(target); colour(target); }
  }, { rootMargin: "50%" });
  for (const code of document.querySelectorAll(".sample code")) watch.observe(code);
}

function keepLanguage() {
  const wanted = document.getElementById(`in-${kept(localStorage, "language")}`);
  if (wanted) wanted.checked = true;
  for (const label of document.querySelectorAll(".tabs label")) {
    // Labels do without a script, but only for who has a pointer.
    const button = make("button", { type: "button", className: label.className, textContent: label.textContent });
    // What is chosen changes the height of everything above: what was clicked stays where it is.
    button.addEventListener("click", () => {
      const before = button.getBoundingClientRect().top;
      document.getElementById(label.htmlFor).click();
      window.scrollBy({ top: button.getBoundingClientRect().top - before, behavior: "instant" });
    });
    label.replaceWith(button);
  }
  const show = () => {
    const chosen = document.querySelector("[name=language]:checked")?.id.slice(3);
    for (const button of document.querySelectorAll(".tabs button")) button.setAttribute("aria-pressed", String(button.className === chosen));
  };
  show();
  for (const choice of document.querySelectorAll("[name=language]")) {
    choice.addEventListener("change", () => { keep(localStorage, "language", choice.id.slice(3)); show(); });
  }
}

function addAnchors() {
  for (const heading of document.querySelectorAll("article[id] h3")) {
    const id = heading.closest("article").id;
    heading.append(make("a", { className: "anchor", href: `#${id}`, textContent: "#", attributes: { "aria-label": "Link to here" } }));
  }
}

// Where one is: the last article whose beginning has passed the upper third of the window.
function followReading() {
  const links = new Map([...document.querySelectorAll("nav a[href^='#']")].map((link) => [link.hash.slice(1), link]));
  const places = [...document.querySelectorAll("main [id]")].filter((place) => links.has(place.id));
  let current = null;
  let waits = false;
  const look = () => {
    waits = false;
    const line = window.innerHeight / 3;
    let found = places[0];
    for (const place of places) if (place.getBoundingClientRect().top < line) found = place;
    if (found === current || !found) return;
    links.get(current?.id)?.removeAttribute("aria-current");
    current = found;
    const link = links.get(current.id);
    link.setAttribute("aria-current", "location");
    const group = link.closest("details");
    if (group) group.open = true;
    if (document.querySelector("nav").checkVisibility()) link.scrollIntoView({ block: "nearest", behavior: "instant" });
  };
  const ask = () => { if (!waits) { waits = true; requestAnimationFrame(look); } };
  addEventListener("scroll", ask, { passive: true });
  addEventListener("resize", ask);
  look();
  document.querySelector("nav").addEventListener("click", (event) => {
    const nav = event.currentTarget;
    if (event.target.closest("a") && nav.matches(":popover-open")) nav.hidePopover();
  });
}

// What there is to find, fetched when it is searched first; nothing else is asked.
const ROOT = document.currentScript.src.replace(/docs\/page\.js$/, "");
let searched = null;

function fetchSearched() {
  searched ??= new Promise((resolve, reject) => {
    const script = make("script", { src: `${ROOT}docs/search.js` });
    script.addEventListener("load", () => resolve(prepareSearched(SEARCHED)));
    script.addEventListener("error", () => { searched = null; reject(new Error("The search could not be loaded.")); });
    document.head.append(script);
  });
  return searched;
}

const fold = (text) => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");

function prepareSearched({ found, also }) {
  const entries = found.map(([href, title, where, words, isWrite]) => {
    const titles = fold(title).split(/[^a-z0-9_.]+/);
    return { href, title, where, isWrite, titles, near: `${fold(where)} ${fold(href)}`, words: ` ${words}` };
  });
  return { entries, also };
}

// How well an entry answers one word: its title, then its route, then a word of its text; 0 if not at all.
function rate(entry, word) {
  if (entry.titles.includes(word)) return entry.isWrite ? 12 : 8;
  if (entry.titles.some((title) => title.startsWith(word))) return 6;
  if (entry.near.includes(word)) return entry.isWrite ? 9 : 5;
  return entry.words.includes(` ${word}`) ? (entry.isWrite ? 2 : 1) : 0;
}

function search({ entries, also }, text) {
  const words = fold(text).split(/[^a-z0-9_.]+/).filter(Boolean);
  const meant = words.map((word) => [word, ...(also[word]?.split(" ") ?? [])]);
  const rated = entries.map((entry) => {
    const points = meant.map((ways) => Math.max(...ways.map((word) => rate(entry, word))));
    return { entry, points: points.every(Boolean) ? points.reduce((sum, point) => sum + point, 0) : -1 };
  });
  return rated.filter(({ points }) => points >= 0).sort((one, other) => other.points - one.points).map(({ entry }) => entry);
}

function offerSearch() {
  const list = make("ul", { id: "found", attributes: { role: "listbox", "aria-label": "Found" } });
  const none = make("p", { className: "said", attributes: { role: "status" } });
  const input = make("input", {
    type: "text", placeholder: "Operation, field, event, error, estorno", autocomplete: "off",
    attributes: { role: "combobox", "aria-label": "Search", "aria-controls": "found", "aria-expanded": "true", "aria-autocomplete": "list" },
  });
  const dialog = make("dialog", { attributes: { "aria-label": "Search" } }, input, list, none);
  document.body.append(dialog);
  let at = 0;
  const mark = () => {
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    if (list.children[at]) input.setAttribute("aria-activedescendant", list.children[at].id);
    else input.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const find = async () => {
    const text = input.value;
    let found = [];
    try {
      found = search(await fetchSearched(), text);
    } catch (error) {
      none.textContent = error.message;
      return;
    }
    // Another letter was typed meanwhile.
    if (input.value !== text) return;
    list.replaceChildren(...found.slice(0, 30).map((entry, index) => make("li", { id: `found-${index}`, attributes: { role: "option", "data-href": ROOT + entry.href } },
      entry.title, make("small", { textContent: entry.where }))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    none.textContent = found.length ? "" : "Nothing has all of these words.";
    at = 0;
    mark();
  };
  const open = () => { if (!dialog.open) { input.value = ""; find(); dialog.showModal(); input.focus(); } };
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    const count = list.querySelectorAll("[role=option]").length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = count ? (at + (event.key === "ArrowDown" ? 1 : count - 1)) % count : 0;
      mark();
    }
    if (event.key === "Enter") { event.preventDefault(); list.children[at]?.click(); }
  });
  list.addEventListener("click", (event) => {
    const href = event.target.closest("li")?.dataset.href;
    if (href) { dialog.close(); location.assign(href); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("keydown", (event) => {
    const types = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    const asked = (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !types && !event.ctrlKey && !event.metaKey);
    if (asked) { event.preventDefault(); open(); }
  });
  const button = document.getElementById("search");
  button.hidden = false;
  button.addEventListener("click", open);
}

// The credentials: typed here, or brought by the address that the terminal printed. What is behind "#" is never sent.
const credentials = { id: kept(sessionStorage, "client_id") ?? "", secret: kept(sessionStorage, "client_secret") ?? "" };
let token = null;

function readAddress() {
  const brought = new URLSearchParams(location.hash.slice(1));
  if (!brought.get("client_id") || !brought.get("client_secret")) return;
  remember(brought.get("client_id"), brought.get("client_secret"));
  history.replaceState(null, "", `${location.pathname}#token`);
}

function remember(id, secret) {
  Object.assign(credentials, { id, secret });
  keep(sessionStorage, "client_id", id);
  keep(sessionStorage, "client_secret", secret);
  token = null;
}

async function getToken() {
  if (token && token.until > Date.now()) return token.text;
  const body = new URLSearchParams({ grant_type: "client_credentials", client_id: credentials.id, client_secret: credentials.secret });
  const answer = await fetch("oauth/token", { method: "POST", body, credentials: "omit" });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`No token: ${said.error_description ?? said.error ?? answer.status}`);
  token = { text: said.access_token, until: Date.now() + (said.expires_in - 10) * 1000 };
  return token.text;
}

function offerCredentials() {
  const place = document.getElementById("credentials");
  const id = make("input", { value: credentials.id, autocomplete: "off", spellcheck: false });
  const secret = make("input", { type: "password", value: credentials.secret, autocomplete: "off" });
  const said = make("p", { className: "said", attributes: { role: "status" } });
  const form = make("form", { className: "form" }, make("label", {}, "client_id", id), make("label", {}, "client_secret", secret),
    make("button", { textContent: "Use them on this page" }), said);
  // Samples show what stands here, so that they can be pasted as they stand.
  const spots = [...document.querySelectorAll("#token .sample code, #request_token .sample code, #request_oauth_token .sample code")]
    .map((code) => [code, code.textContent]);
  const fill = () => {
    for (const [code, text] of spots) {
      code.textContent = text.replaceAll("CLIENT_ID", credentials.id || "CLIENT_ID").replaceAll("CLIENT_SECRET", credentials.secret || "CLIENT_SECRET");
    }
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    remember(id.value.trim(), secret.value.trim());
    fill();
    said.classList.remove("bad");
    said.textContent = "Asking for a token …";
    try {
      await getToken();
      said.textContent = "They are right. Every operation below can be tried now.";
    } catch (error) {
      said.textContent = error.message;
      said.classList.add("bad");
    }
  });
  place.append(form);
  fill();
  if (credentials.id) said.textContent = "Filled in. Every operation below can be tried now.";
}

function offerTrying() {
  for (const article of document.querySelectorAll("article[data-method]:not([data-form])")) {
    const details = make("details", { className: "try" }, make("summary", { textContent: "Try it" }));
    // Made when it is opened: most never are.
    details.addEventListener("toggle", () => { if (details.childElementCount === 1) details.append(makeTrial(article)); });
    article.querySelector(":scope > div").append(details);
  }
}

function makeTrial(article) {
  const inputs = [...article.querySelectorAll("li[data-in]")].map((field) => {
    const isNeeded = field.querySelector(".need") !== null;
    const input = make("input", { required: isNeeded, autocomplete: "off", value: isNeeded ? exampleOf(article, field) : "" });
    return { field, input };
  });
  const example = article.querySelector(".sample.typescript code").textContent.match(/JSON\.stringify\((\{[\s\S]*\})\),\n\}\);/);
  const body = example ? make("textarea", { value: freshened(example[1].replace(/\n {2}/g, "\n")), spellcheck: false }) : null;
  const said = make("p", { className: "said", attributes: { role: "status" } });
  const answer = make("code");
  const shown = make("div", { className: "sample", hidden: true }, make("pre", { tabIndex: 0 }, answer));
  const button = make("button", { textContent: `Send ${article.dataset.method}` });
  const form = make("form", { className: "form" },
    ...inputs.map(({ field, input }) => make("label", {}, field.dataset.name, input)),
    ...(body ? [make("label", {}, "Body", body)] : []), button, said, shown);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const began = performance.now();
      const found = await send(article, inputs, body);
      said.textContent = `${found.status} after ${Math.round(performance.now() - began)} ms`;
      said.classList.toggle("bad", found.status >= 400);
      answer.textContent = found.text;
      shown.hidden = false;
    } catch (error) {
      said.textContent = error.message;
      said.classList.add("bad");
    }
    button.disabled = false;
  });
  return form;
}

async function send(article, inputs, body) {
  let path = article.dataset.path;
  const query = new URLSearchParams();
  for (const { field, input } of inputs) {
    if (field.dataset.in === "path") path = path.replace(`{${field.dataset.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.set(field.dataset.name, input.value);
  }
  const headers = {};
  if (!("public" in article.dataset)) {
    if (!credentials.id) throw new Error("Put in client_id and client_secret under “Get a token” first.");
    headers.Authorization = `Bearer ${await getToken()}`;
  }
  if (body) headers["Content-Type"] = "application/json";
  const text = query.toString();
  // Relative: a proxy may serve the service below a path of its own.
  const answer = await fetch(path.slice(1) + (text ? `?${text}` : ""), { method: article.dataset.method, headers, body: body?.value, credentials: "omit" });
  return { status: answer.status, text: pretty(await answer.text()) };
}

function exampleOf(article, field) {
  const [path, query] = article.querySelector(".sample.curl code").textContent.match(/'(.*?)'/)[1].split("?");
  if (field.dataset.in === "query") return new URLSearchParams(query).get(field.dataset.name) ?? "";
  const at = article.dataset.path.split("/").indexOf(`{${field.dataset.name}}`);
  return decodeURIComponent(path.split("/").slice(at - article.dataset.path.split("/").length)[0]);
}

// A name that was used already would only show the same answer again.
function freshened(text) {
  return text.replace(/("external_id": ")[^"]*"/, `$1order-${Date.now()}"`);
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text.slice(0, 20000); }
}

addEventListener("DOMContentLoaded", () => {
  offerThemes();
  offerCopies();
  offerSearch();
  colourSamples();
  if (!document.getElementById("token")) return; // a guide
  keepLanguage();
  addAnchors();
  if ("try" in root.dataset) {
    readAddress();
    offerCredentials();
    offerTrying();
  }
  followReading();
  // What a script has added may have moved what the address leads to.
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) {
    target.closest("details")?.setAttribute("open", "");
    target.scrollIntoView({ behavior: "instant" });
  }
});
