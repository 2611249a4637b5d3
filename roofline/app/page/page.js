"use strict";
// The controls are the state, the query string is the state in writing, and the server knows what it means.

const PATIENCE_MS = 30; // a slider that moves asks once it rests this long
const PASTED = "\u0000pasted";
const DARK = matchMedia("(prefers-color-scheme: dark)");
const form = document.getElementById("controls");
const byId = (id) => document.getElementById(id);

let running = null; // the request that is under way
let timer = 0;
let picture = null;
let shown = null; // the last answer

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// --- controls ---------------------------------------------------------------------------------------------------

function fill(select, names, more = []) {
  select.append(...names.map((name) => new Option(name, name)), ...more);
}

function sliderOf(control) {
  const { least, most } = control.dataset;
  const slider = control.querySelector("input[type=range]");
  const field = control.querySelector("input[name]");
  const span = Math.log(most / least);
  const told = () => slider.setAttribute("aria-valuetext", field.value);
  slider.addEventListener("input", () => {
    const value = least * Math.exp((span * slider.value) / 100);
    field.value = rounded(value, 2);
    told();
  });
  const follow = () => {
    const value = plainNumber(field.value);
    if (value > 0) slider.value = (100 * Math.log(value / least)) / span;
    told();
  };
  field.addEventListener("input", follow);
  control.follow = follow;
}

function rounded(value, digits) {
  return String(Number(value.toPrecision(digits)));
}

function plainNumber(text) {
  const found = /^\s*([\d.]+)\s*([kKM]?)/.exec(text);
  return found ? Number(found[1]) * { "": 1, k: 1e3, K: 1e3, M: 1e6 }[found[2]] : NaN;
}

function loadKind() {
  return form.elements.load.value;
}

function arrange() {
  byId("config-control").hidden = byId("model").value !== PASTED;
  for (const name of ["batch", "rate"]) byId(name).closest(".control").hidden = name !== loadKind();
}

function queryOf() {
  const query = new URLSearchParams();
  for (const field of form.elements) {
    const left = !field.name || field.name === "load" || field.closest("[hidden]") || field.value === PASTED;
    if (!left && field.value.trim()) query.set(field.name, field.value.trim());
  }
  return query;
}

function setControls(query, usual) {
  for (const name of ["batch", "prompt", "output"]) form.elements[name].value = usual[name];
  for (const [name, value] of query) {
    const field = form.elements[name];
    if (!field || name === "load") continue;
    if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === value)) {
      field.append(new Option(value, value)); // the server says what is wrong with it
    }
    field.value = value;
  }
  if (query.has("config")) byId("model").value = PASTED;
  if (query.has("rate")) form.elements.load.value = "rate";
  if (!byId("rate").value) byId("rate").value = "2";
  byId("more-layout").open = ["pp", "dp", "ep", "cp"].some((name) => query.has(name));
  for (const control of form.querySelectorAll(".number")) control.follow();
  arrange();
}

// --- asking -----------------------------------------------------------------------------------------------------

function later() {
  clearTimeout(timer);
  timer = setTimeout(ask, PATIENCE_MS);
}

async function ask() {
  const query = queryOf();
  history.replaceState(null, "", `?${query}`);
  if (running) running.abort();
  const mine = new AbortController();
  running = mine;
  byId("results").setAttribute("aria-busy", "true");
  try {
    const reply = await fetch(`/api?${query}`, { signal: mine.signal });
    if (reply.headers.get("Content-Type") !== "application/json; charset=utf-8") throw new Error((await reply.text()).trim());
    const found = await reply.json();
    if (mine.signal.aborted) return;
    if (reply.ok) show(found, query);
    else complain(found.error, found.control);
  } catch (error) {
    if (error.name === "AbortError") return;
    complain(error instanceof TypeError ? "The server does not answer; start it again with `roofline explore`." : error.message, null);
  }
  byId("results").removeAttribute("aria-busy");
}

function complain(message, control) {
  forgive();
  const place = control && byId(`${control}-error`);
  if (place && !place.closest("[hidden]")) {
    place.textContent = message;
    byId(control).setAttribute("aria-invalid", "true");
    if (place.closest("details")) place.closest("details").open = true;
  } else {
    byId("fault").textContent = message;
  }
  byId("results").classList.add("stale");
  if (!shown) byId("title").textContent = "No results yet";
}

function forgive() {
  byId("fault").textContent = "";
  for (const place of form.querySelectorAll(".error")) place.textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  byId("results").classList.remove("stale");
}

// --- showing ----------------------------------------------------------------------------------------------------

function show(found, query) {
  forgive();
  shown = found;
  byId("title").textContent = found.title;
  byId("answer").textContent = found.headline;
  document.querySelector("header").classList.toggle("misfit", !found.fits);
  document.title = `${found.title} – roofline`;
  list(byId("pass-sentences"), found.sentences);
  showPasses(found.phases);
  showOperators(byId("decode-operators"), found.operators["decode step"]);
  showOperators(byId("prefill-operators"), found.operators.prefill);
  showMemory(found.memory);
  showCurve();
  rows(byId("curve-table").tBodies[0], found.curve.rows);
  showQueue(found.queue);
  byId("cost-sentence").textContent = found.cost.sentence;
  byId("cost-price").textContent = found.cost.price ? `Price of one accelerator: ${found.cost.price}` : "";
  list(byId("decode-napkin"), found.napkin["decode step"]);
  list(byId("prefill-napkin"), found.napkin.prefill);
  byId("python").textContent = found.python;
  byId("cli").textContent = found.cli;
  list(byId("notes"), found.notes);
  showPicture(query, found);
}

function list(host, lines) {
  host.replaceChildren(...lines.map((line) => make("li", {}, line)));
}

function rows(body, cells) {
  body.replaceChildren(...cells.map(([first, ...others]) => make(
    "tr", {}, make("th", { scope: "row" }, first), ...others.map((cell) => make("td", {}, cell)),
  )));
}

function showPasses(phases) {
  rows(byId("passes").tBodies[0], phases.map((phase) => [
    phase.name, phase.shown.floor_s, phase.shown.roofline_s, phase.shown.estimate_s, phase.limit, phase.intensity,
  ]));
}

function bar(classes, share) {
  const made = make("span", { class: `bar ${classes}` });
  made.style.width = `${100 * Math.min(share, 1)}%`;
  return made;
}

function showOperators(host, operators) {
  const most = 8;
  const kept = operators.slice(0, most);
  const rest = operators.slice(most).reduce((sum, each) => sum + each.share, 0);
  const longest = Math.max(...kept.map((each) => each.share));
  const lines = kept.map((each) => make(
    "li", { title: `${each.name}: ${each.shown}, limited by ${each.limit}` },
    make("span", { class: "name" }, each.name),
    make("span", {}, bar(each.limit, each.share / longest)),
    make("span", { class: "time" }, `${each.shown}, ${Math.round(100 * each.share)}%`),
  ));
  if (rest > 0.005) {
    lines.push(make("li", {}, make("span", { class: "name" }, "other"), make("span", {}, bar("", rest / longest)),
      make("span", { class: "time" }, `${Math.round(100 * rest)}%`)));
  }
  host.replaceChildren(...lines);
}

function partClass(name) {
  return `part-${name.split(" ")[0].toLowerCase()}`;
}

function showMemory(memory) {
  byId("memory-sentence").textContent = memory.sentence;
  const mark = make("span", { class: "mark" });
  mark.style.left = `calc(${100 * memory.device_share}% - 2px)`;
  byId("memory-bar").replaceChildren(...memory.parts.map((part) => bar(partClass(part.name), part.share)), mark);
  byId("memory-parts").replaceChildren(
    ...memory.parts.map((part) => make("li", {}, make("span", { class: `swatch ${partClass(part.name)}` }), `${part.name}: ${part.shown}`)),
    make("li", {}, `of ${memory.device} (the line)`),
  );
}

function showCurve() {
  if (shown) drawCurve(byId("curve"), shown.curve, `${shown.sentences[2]} The table below has the times of other batches.`);
}

function showQueue(queue) {
  byId("queue-sentence").textContent = queue.sentence;
  byId("queue").tHead.replaceChildren(make("tr", {}, ...queue.head.map((words) => make("th", { scope: "col" }, words))));
  rows(byId("queue").tBodies[0], queue.rows);
  byId("queue").hidden = queue.rows.length === 0;
  const used = queue.utilization;
  byId("queue-bar").hidden = used === null;
  byId("queue-bar").replaceChildren(bar(used > 1 ? "compute" : "part-kv", used || 0));
}

// The text is there already: the picture follows, and one that is no longer wanted is given up.
function showPicture(query, found) {
  const address = `/plot.svg?${query}${DARK.matches ? "&theme=dark" : ""}`;
  if (picture) picture.src = "";
  const next = new Image();
  picture = next;
  next.onload = () => {
    byId("roofline").src = address;
    byId("roofline").alt = `Roofline of ${found.title}. ${found.phases.map((phase) => `${phase.name}: ${phase.intensity}, ${phase.limit}-bound`).join("; ")}.`;
    byId("roofline-link").href = address;
  };
  next.src = address;
}

async function copy(button) {
  const name = button.dataset.copies;
  try {
    await navigator.clipboard.writeText(shown[name]);
    byId("copied").textContent = `Copied: ${name === "cli" ? "the commands" : "the Python code"}.`;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(byId(name));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    byId("copied").textContent = "The code is selected; copy it with the keyboard.";
  }
}

// --- start ------------------------------------------------------------------------------------------------------

async function start() {
  const choices = await (await fetch("/choices")).json();
  fill(byId("model"), choices.model, [new Option("paste a config.json …", PASTED)]);
  for (const name of ["hardware", "engine", "weights", "activations", "kv"]) fill(byId(name), choices[name]);
  for (const control of form.querySelectorAll(".number")) sliderOf(control);
  const given = new URLSearchParams(location.search);
  setControls([...given.keys()].length ? given : new URLSearchParams(choices.start), choices.start);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { arrange(); later(); });
  for (const button of document.querySelectorAll("[data-copies]")) button.addEventListener("click", () => copy(button));
  DARK.addEventListener("change", () => shown && showPicture(queryOf(), shown));
  new ResizeObserver(showCurve).observe(byId("curve"));
  await ask();
}

start().catch(() => complain("The server does not answer; start it again with `roofline explore`.", null));
