// Adds to pages that work without it: live parts, keyboard, copying. Nothing is fetched but from the console itself.
"use strict";
(() => {
  const live = document.getElementById("live");
  const find = document.getElementById("find");
  const BOXES = "details.who[open], details.menu[open], details.types[open]";

  // Copying needs a script, so the buttons are shown only now.
  const showCopies = (root) => root.querySelectorAll("button.copy").forEach((each) => { each.hidden = false; });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    const said = button.textContent;
    button.textContent = "✓ " + said;
    setTimeout(() => { button.textContent = said; }, 1500);
  });

  // A live part is replaced as a whole; what the reader has opened stays open, and the focus stays where it is.
  const nameOf = (details) => details.id || details.firstElementChild.textContent;
  const replace = (html) => {
    const opened = new Set([...live.querySelectorAll("details[open]")].map(nameOf));
    const focused = live.contains(document.activeElement) ? document.activeElement.id || document.activeElement.getAttribute("href") : null;
    const known = new Set([...live.querySelectorAll("[data-key]")].map((each) => each.dataset.key));
    live.innerHTML = html;
    live.querySelectorAll("details").forEach((each) => { if (opened.has(nameOf(each))) each.open = true; });
    live.querySelectorAll("[data-key]").forEach((each) => { if (known.size && !known.has(each.dataset.key)) each.dataset.fresh = ""; });
    if (focused) {
      const found = document.getElementById(focused) || [...live.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === focused);
      if (found) found.focus({ preventScroll: true });
    }
    showCopies(live);
  };
  // Nobody is asked while nobody looks: a page in the background, or a quarter of an hour without a key or a move.
  let source = null, idle = 0;
  const stop = () => { if (source) { source.close(); source = null; } };
  const start = () => {
    if (source || !live || !("live" in live.dataset) || document.hidden || idle > 15) return;
    source = new EventSource(location.href);
    source.addEventListener("part", (event) => {
      const isTyped = [...live.querySelectorAll("input, textarea")].some((each) => each.value !== each.defaultValue);
      if (!isTyped && !live.querySelector("input:focus, textarea:focus, select:focus")) replace(event.data);
      live.dataset.live = "on";
    });
    // Closed and not only cut: the session has ended, or too many look.
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) live.dataset.live = "off"; });
  };
  const wake = () => { idle = 0; start(); };
  setInterval(() => { idle += 1; if (idle > 15) stop(); }, 60000);
  ["pointermove", "keydown", "focus"].forEach((name) => window.addEventListener(name, wake, { passive: true }));
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("pagehide", stop);
  if (live) { showCopies(document); start(); }

  // A link that signs in is sent by itself; without a script one presses the button.
  const sent = document.querySelector("form[data-send]");
  if (sent) sent.requestSubmit();
  // What is chosen in a filter is asked for at once.
  document.querySelectorAll("form.filters").forEach((form) => form.addEventListener("change", (event) => {
    if (event.target.matches("input[type=checkbox], input[type=radio], select") && !event.target.closest(".check")) form.requestSubmit();
  }));
  // Fields that are empty do not belong in an address.
  document.querySelectorAll("form[method='get'], form:not([method])").forEach((form) => form.addEventListener("submit", () => {
    form.querySelectorAll("input").forEach((each) => { if (!each.value) each.disabled = true; });
  }));
  document.addEventListener("click", (event) => {
    document.querySelectorAll(BOXES).forEach((each) => { if (!each.contains(event.target)) each.open = false; });
  });

  // What is typed suggests names and ids, a quarter of a second after the last key.
  let typing = 0;
  if (find) find.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(async () => {
      const text = find.value.trim();
      const answer = text.length < 3 ? null : await fetch("/search/suggestions?q=" + encodeURIComponent(text));
      if (answer && answer.ok && find.value.trim() === text) document.getElementById("suggestions").innerHTML = await answer.text();
    }, 250);
  });

  // Keyboard: "/" finds, "?" helps, arrows or j and k walk through a list, Enter opens, Escape closes.
  const rows = () => [...document.querySelectorAll("a.row-link")];
  const step = (by) => {
    const all = rows(), at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      document.querySelectorAll(BOXES).forEach((each) => { each.open = false; });
      if (document.activeElement === find) find.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "/" && find) { event.preventDefault(); find.focus(); find.select(); }
    else if (event.key === "?") { event.preventDefault(); location.href = document.querySelector("a[data-help]").href; }
    else if ((event.key === "ArrowDown" || event.key === "j") && rows().length) { event.preventDefault(); step(1); }
    else if ((event.key === "ArrowUp" || event.key === "k") && rows().length) { event.preventDefault(); step(-1); }
    else if (event.key === "n") { const next = document.querySelector("a[rel=next]"); if (next) next.click(); }
  });
})();
