// The status page: asks for the status document every second and shows it. Whatever comes from there is put in as text,
// never as markup: topic names and error texts are other people's.
"use strict";

const every = 1000; // ms between two looks
const phases = ["align", "flush", "persist", "commit"];
let last = null; // {at, bridges: {name: {in, out}}} of the look before, for rates

function el(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  for (const c of children) if (c !== null && c !== undefined) e.append(c instanceof Node ? c : String(c));
  return e;
}

const number = new Intl.NumberFormat("en");
const n = v => number.format(Math.round(v));
const seconds = s => s < 10 ? s.toFixed(s < 1 ? 3 : 1) + " s" : Math.round(s) + " s";
const clock = ms => new Date(ms).toLocaleTimeString();

function bytes(v) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (v < 1024 || unit === "GiB") return (unit === "B" ? v : v.toFixed(1)) + " " + unit;
    v /= 1024;
  }
}

function table(heads, rows) {
  return el("div", "scroll", el("table", "",
    el("thead", "", el("tr", "", ...heads.map(h => el("th", h.number ? "n" : "", h.text)))),
    el("tbody", "", ...rows)));
}

function head(b) {
  const state = b.ready ? el("span", "state good", "ready") : el("span", "state bad", "not ready");
  const box = el("div", "", el("div", "head", el("h2", "", b.bridge), state,
    el("span", "faint", b.semantic), el("span", "faint", b.state),
    el("span", "faint", b.epoch ? "epoch " + b.epoch : "no epoch open"),
    el("span", "faint", b.decided_epoch ? "decided " + b.decided_epoch + (b.last_decided_ms ? " at " + clock(b.last_decided_ms) : "") : "nothing decided yet")));
  if (!b.ready) box.append(el("p", "reason bad", b.reason));
  for (const w of b.waiting || []) box.append(el("p", "reason wait", "waits: " + w));
  return box;
}

function way(b, rates) {
  const box = el("div", "way");
  const sources = el("div");
  for (const s of b.sources) {
    const lag = s.partitions.reduce((sum, p) => sum + Math.max(0, p.lag), 0);
    sources.append(el("p", "", el("strong", "", s.name)), el("p", "", n(s.records_in) + " records in"), el("p", lag ? "wait" : "good", "lag " + n(lag)));
  }
  sources.append(el("p", "faint", rates ? n(rates.in) + " records/s" : ""));
  const m = b.maps, maps = el("div", "", el("p", "", el("strong", "", "maps")));
  for (const [kind, count] of Object.entries(m.dropped_by || {})) maps.append(el("p", "", kind + ": " + n(count) + " dropped"));
  for (const [kind, by] of Object.entries(m.map_errors || {}))
    for (const [policy, count] of Object.entries(by)) maps.append(el("p", "bad", kind + ": " + n(count) + " failed, " + policy));
  maps.append(el("p", "faint", n(m.untouched_batches) + " batches untouched"));
  for (const [why, count] of Object.entries(m.reencoded_batches || {})) maps.append(el("p", "faint", n(count) + " encoded anew: " + why));
  const sink = el("div", "", el("p", "", el("strong", "", "sink")), el("p", "", n(m.records_out) + " records out, " + bytes(m.bytes_out)));
  if (m.dead_letters) sink.append(el("p", "bad", n(m.dead_letters) + " dead letters"));
  sink.append(el("p", "faint", rates ? n(rates.out) + " records/s" : ""));
  box.append(sources, el("span", "", "→"), maps, el("span", "", "→"), sink);
  return box;
}

function transaction(b) {
  const t = b.transaction, box = el("div");
  if (!t.open && !t.prepared) return null;
  box.append(el("h3", "", "Transactions"));
  if (t.prepared) box.append(el("p", "reason", "prepared: " + t.prepared));
  if (t.open) box.append(el("p", "reason", "open: " + t.open));
  const meter = el("meter");
  Object.assign(meter, { min: 0, max: t.timeout_seconds || 1, high: (t.timeout_seconds || 1) * 0.7, value: t.open_seconds });
  meter.setAttribute("aria-label", "age of the oldest transaction against its timeout");
  box.append(meter, el("p", "faint", "the oldest is " + seconds(t.open_seconds) + " old, the broker aborts it after " + seconds(t.timeout_seconds)));
  return box;
}

function bar(c, longest) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 1000 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", phases.map(p => p + " " + seconds(c[p + "_seconds"])).join(", "));
  let x = 0;
  for (const p of phases) {
    const width = longest ? c[p + "_seconds"] / longest * 1000 : 0;
    const r = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    r.setAttribute("class", p);
    r.setAttribute("x", x);
    r.setAttribute("width", width);
    r.setAttribute("height", 10);
    svg.append(r);
    x += width;
  }
  return svg;
}

function checkpoints(b) {
  const recent = (b.recent_checkpoints || []).slice().reverse();
  if (!recent.length) return null;
  const total = c => phases.reduce((sum, p) => sum + c[p + "_seconds"], 0);
  const longest = Math.max(...recent.map(total));
  const rows = recent.map(c => {
    const cell = el("td", "bar");
    cell.append(bar(c, longest));
    return el("tr", "", el("td", "n", c.epoch), el("td", c.result === "decided" ? "good" : "bad", c.result || "under way"),
      el("td", "n", clock(c.began_ms)), el("td", "n", seconds(total(c))), cell);
  });
  const counts = Object.entries(b.checkpoints || {}).map(([result, count]) => n(count) + " " + result).join(", ");
  return el("div", "", el("h3", "", "Checkpoints"), el("p", "faint", counts),
    el("p", "key", ...phases.map(p => el("span", p, p))),
    table([{ text: "epoch", number: true }, { text: "result" }, { text: "began", number: true }, { text: "took", number: true }, { text: "phases" }], rows));
}

function lag(b) {
  const rows = [];
  for (const s of b.sources) for (const p of s.partitions)
    rows.push({ lag: p.lag, row: el("tr", "", el("td", "name", s.name), el("td", "name", p.topic), el("td", "n", p.partition), el("td", "n", p.position),
      el("td", "n" + (p.lag > 0 ? " wait" : ""), p.lag < 0 ? "unknown" : n(p.lag)), el("td", "n", n(Math.max(0, p.high_watermark - p.last_stable))), el("td", "name wait", p.waiting || "")) });
  if (!rows.length) return null;
  rows.sort((x, y) => y.lag - x.lag);
  const most = 200, box = el("div", "", el("h3", "", "Partitions"));
  if (rows.length > most) box.append(el("p", "faint", "the " + most + " furthest behind of " + n(rows.length)));
  box.append(table([{ text: "source" }, { text: "topic" }, { text: "partition", number: true }, { text: "position", number: true }, { text: "lag", number: true },
    { text: "held back", number: true }, { text: "" }], rows.slice(0, most).map(r => r.row)));
  return box;
}

function recoveries(b) {
  const box = el("div", "", el("h3", "", "Recoveries"));
  const counts = Object.entries(b.recoveries || {}).map(([outcome, count]) => n(count) + " " + outcome).join(", ");
  if (b.recovery) box.append(el("p", "reason", b.recovery.outcome + " at " + clock(b.recovery.at_ms) + (b.recovery.reason ? ": " + b.recovery.reason : "")));
  if (counts) box.append(el("p", "faint", counts));
  if (b.replayed_records) box.append(el("p", "", n(b.replayed_records) + " records read again"));
  if (b.restarts) box.append(el("p", "wait reason", n(b.restarts) + " restarts; the last failure: " + (b.last_failure || "")));
  return box.childElementCount > 1 ? box : null;
}

function counted(b) {
  return { in: b.sources.reduce((sum, s) => sum + s.records_in, 0), out: b.maps.records_out };
}

function show(d) {
  const now = { at: performance.now(), bridges: {} };
  const cards = d.bridges.map(b => {
    const c = now.bridges[b.bridge] = counted(b), before = last && last.bridges[b.bridge];
    const dt = last ? (now.at - last.at) / 1000 : 0;
    const rates = before && dt > 0 ? { in: Math.max(0, c.in - before.in) / dt, out: Math.max(0, c.out - before.out) / dt } : null;
    const card = el("section", "bridge", head(b), el("h3", "", "Way"), way(b, rates));
    card.id = "bridge-" + b.bridge;
    for (const part of [transaction(b), checkpoints(b), lag(b), recoveries(b)]) if (part) card.append(part);
    return card;
  });
  last = now;
  const box = document.getElementById("bridges");
  const at = Array.from(box.querySelectorAll(".scroll"), e => e.scrollTop);
  box.replaceChildren(...cards);
  box.querySelectorAll(".scroll").forEach((e, i) => { e.scrollTop = at[i] || 0; });
  document.title = (d.ready ? "" : "not ready: ") + "bridge";
}

async function look() {
  const contact = document.getElementById("contact");
  try {
    const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error("status " + answer.status);
    const d = await answer.json();
    show(d);
    contact.className = "";
    contact.textContent = "version " + d.version + ", " + new Date().toLocaleTimeString();
  } catch (e) {
    contact.className = "lost";
    contact.textContent = "no answer from the daemon since " + (contact.dataset.since ||= new Date().toLocaleTimeString()) + "; what is below is older";
    setTimeout(look, every);
    return;
  }
  delete contact.dataset.since;
  setTimeout(look, every);
}

look();
