"use strict";
// An error shows in the page's own tree, for the test that loads it without a window.
addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });
const root = document.documentElement;
const chosen = {};
// Everything drawn in several ways shows the one whose every key is chosen.
function show() {
  for (const variant of document.querySelectorAll(".variant")) {
    variant.hidden = Object.entries(chosen).some(([key, value]) => {
      const own = variant.getAttribute("data-of-" + key);
      return own !== null && own !== value;
    });
  }
}
function choose(key, value) {
  chosen[key] = value;
  for (const other of document.querySelectorAll(`button[data-key="${key}"]`)) {
    other.setAttribute("aria-pressed", String(other.dataset.value === value));
  }
}
// A page that is loaded again while its run goes on keeps what was chosen on it. A file may have no storage.
const kept = { get() { try { return JSON.parse(sessionStorage.getItem("chosen" + location.pathname)) ?? {}; } catch { return {}; } },
  set() { try { sessionStorage.setItem("chosen" + location.pathname, JSON.stringify(chosen)); } catch { /* Until the next load, then. */ } } };
const before = kept.get();
for (const button of document.querySelectorAll("button[data-key]")) {
  const { key, value } = button.dataset;
  chosen[key] ??= value;
  button.addEventListener("click", () => { choose(key, value); kept.set(); show(); });
}
for (const button of document.querySelectorAll("button[data-key]")) {
  if (before[button.dataset.key] === button.dataset.value) choose(button.dataset.key, button.dataset.value);
}
show();
// A link to a panel within the details opens them.
const unfold = () => { const to = document.getElementById(location.hash.slice(1)); to?.closest("details.more")?.setAttribute("open", ""); to?.scrollIntoView(); };
addEventListener("hashchange", unfold);
unfold();
// Light or dark: the system's choice, until somebody says otherwise. A file may have no storage.
const stored = { get() { try { return localStorage.getItem("theme"); } catch { return null; } },
  set(theme) { try { localStorage.setItem("theme", theme); } catch { /* For this page only, then. */ } } };
if (stored.get()) root.dataset.theme = stored.get();
document.getElementById("theme")?.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  stored.set(root.dataset.theme);
});
document.getElementById("copy")?.addEventListener("click", async (event) => {
  const text = document.getElementById("repro");
  try { await navigator.clipboard.writeText(text.textContent); event.target.textContent = "copied"; }
  catch { getSelection().selectAllChildren(text); }
});
// A page that is served while its run goes on asks for news, and is loaded again when there are some.
if (root.dataset.running === "true" && root.dataset.version && location.protocol.startsWith("http")) {
  setInterval(async () => {
    try {
      const answer = await fetch("version", { cache: "no-store" });
      if (answer.ok && (await answer.text()).trim() !== root.dataset.version) location.reload();
    } catch { /* The server is gone: what is here stays. */ }
  }, 2000);
}
root.dataset.ready = "true";
