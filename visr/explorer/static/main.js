// The page: views, connection, theme, shortcuts.

import { get, onConnection, post } from "./api.js";
import * as atlas from "./atlas.js";
import * as chooser from "./chooser.js";
import * as marks from "./marks.js";
import * as paint from "./paint.js";
import { compact } from "./plots.js";
import { $, facts, on, setFacts } from "./store.js";
import * as taskcard from "./taskcard.js";
import * as training from "./training.js";
import * as watch from "./watch.js";

const VIEWS = ["paint", "watch", "atlas", "training"];
const views = { paint, watch, atlas, training };
const available = () => VIEWS.filter((name) => name !== "paint" || facts()?.grid);

function current() {
  const wanted = location.hash.slice(1);
  return available().includes(wanted) ? wanted : available()[0];
}

function show(name) {
  history.replaceState(null, "", `#${name}`);
  for (const view of VIEWS) {
    $(view).hidden = view !== name;
    $(`tab-${view}`).hidden = !available().includes(view);
    $(`tab-${view}`).setAttribute("aria-selected", view === name);
    $(`tab-${view}`).tabIndex = view === name ? 0 : -1;
  }
  if (name !== "watch") watch.pause();
  if (name === "watch") watch.open();
  if (name === "atlas") atlas.open();
  if (name === "training") poll();
}

function openWatch() {
  show("watch");
  watch.play();
}

function tabs() {
  for (const view of VIEWS) {
    const tab = $(`tab-${view}`);
    tab.addEventListener("click", () => show(view));
    tab.addEventListener("keydown", (event) => {
      const shift = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!shift) return;
      const names = available();
      const next = names[(names.indexOf(view) + shift + names.length) % names.length];
      show(next);
      $(`tab-${next}`).focus();
      event.preventDefault();
    });
  }
  addEventListener("hashchange", () => show(current()));
}

function theme() {
  const order = ["auto", "light", "dark"];
  const words = { auto: "Auto", light: "Light", dark: "Dark" };
  const apply = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    $("theme").textContent = words[name];
    $("theme").setAttribute("aria-label", `Theme: ${name === "auto" ? "as the system's" : name}`);
    document.dispatchEvent(new Event("visr-theme"));
  };
  let chosen = localStorage.getItem("visr-theme") || "auto";
  apply(order.includes(chosen) ? chosen : "auto");
  $("theme").addEventListener("click", () => {
    chosen = order[(order.indexOf(chosen) + 1) % 3];
    localStorage.setItem("visr-theme", chosen);
    apply(chosen);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(chosen));
}

function shortcuts() {
  $("help").addEventListener("click", () => $("shortcuts").showModal());
  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=radio]):not([type=checkbox]), select, textarea, dialog");
    if (typing || event.defaultPrevented) return;
    const isPress = [" ", "Enter"].includes(event.key) && event.target.closest("button, summary, a, input");
    const isChoice = event.key.startsWith("Arrow") && event.target.closest("input, [role=tab]");
    if (isPress || isChoice) return;
    if (event.key === "?") $("shortcuts").showModal();
    else if (/^[1-4]$/.test(event.key) && available()[event.key - 1]) show(available()[event.key - 1]);
    else if (!views[current()].shortcut?.(event.key, event)) return;
    event.preventDefault();
  });
}

const NOTICES = {
  connecting: "The explorer does not answer; this page goes on trying.",
  refused: "The explorer was restarted, or this browser has not opened its address: open the address that it printed.",
};

function connection() {
  onConnection((state, previous) => {
    $("connection").dataset.state = state;
    $("connection").querySelector("b").textContent = { connected: "connected", connecting: "reconnecting", refused: "no token" }[state];
    const isLost = state === "refused" || (state === "connecting" && previous);
    $("notice").hidden = !isLost;
    $("notice").textContent = isLost ? NOTICES[state] : "";
    if (state === "connected" && previous && facts()) {
      // perhaps another launch, which remembers nothing
      taskcard.forgotten();
      chooser.forgotten();
      load().then(() => paint.again());
    }
  });
}

async function load() {
  try {
    setFacts(await get("/api/run"));
  } catch {
    return setTimeout(load, 1000);
  }
}

let polling = null;
async function poll() {
  clearTimeout(polling);
  try {
    const progress = await get("/api/progress");
    if (facts()) {
      $("age").textContent = `weights of step ${compact(progress.num_steps)}`;
      $("use-newest").hidden = progress.newest_steps <= progress.num_steps;
      $("use-newest").textContent = `Use step ${compact(progress.newest_steps)}`;
      await training.update(progress);
    }
  } catch {
    // said by the connection's own light
  }
  polling = setTimeout(poll, document.hidden ? 5000 : 1500);
}

on("facts", (run) => {
  document.title = `${run.name} · visr explorer`;
  $("env").textContent = run.env;
  $("run-name").textContent = run.name;
});
$("use-newest").addEventListener("click", async () => {
  setFacts(await post("/api/reload"));
  taskcard.forgotten();
  chooser.forgotten();
  paint.again();
  poll();
});

theme();
connection();
shortcuts();
tabs();
taskcard.setup(openWatch);
paint.setup();
marks.setup();
watch.setup();
chooser.setup();
atlas.setup(openWatch);
training.setup();
await load();
while (!facts()) await new Promise((done) => setTimeout(done, 300));
show(current());
poll();
