// What the page shows of a status document: functions from data to elements. Whatever the daemon says becomes text.
import { ago, bytes, count, duration, h, moment, plural } from "./dom.js";
import { rate, rates } from "./rates.js";

const most = 50; // partitions shown at a time

const phases = {
  align: "The barrier is on its way through all tasks",
  flush: "Every record of the epoch is being acknowledged by the sink",
  persist: "The checkpoint is being written to disk",
  commit: "Kafka is committing the transaction",
};
const outcomes = {
  clean: "Nothing was prepared: the bridge goes on from where it stood",
  committed: "What was prepared counts: nothing is read again",
  replayed: "The broker had aborted what was prepared: its range is read again",
  adopted: "The ledger had lost its records: a checkpoint of the state directory is the truth",
  stale: "The state directory is old, empty or a copy: the ledger is the truth",
};

// overview is everything below the heading. v is { stale, now, filters }: whether the document is old, the daemon's
// clock in ms, and for each bridge what its partitions are filtered by.
export function overview(d, v) {
  return [d.bridges.length > 1 && index(d, v), ...d.bridges.map(b => card(b, v))];
}

function index(d, v) {
  return h("nav", { "aria-label": "Bridges" }, h("ul", {},
    d.bridges.map(b => h("li", {}, h("a", { href: "#" + anchor(b) }, b.bridge), " ", badge(b, v)))));
}

const anchor = b => `bridge-${b.bridge}`;

function badge(b, v) {
  const was = v.stale ? "was " : "";
  return h(v.stale ? "span.badge" : b.ready ? "span.badge.good" : "span.badge.bad", {}, was + (b.ready ? "ready" : "not ready"));
}

function card(b, v) {
  const id = anchor(b);
  return h("section.bridge", { id, "aria-labelledby": id + "-name" },
    h("div.head", {}, h("h2", { id: id + "-name" }, b.bridge), badge(b, v), facts(b, v)),
    why(b, v), way(b, v),
    h("div.pair", {}, h("div", {}, transactions(b), recoveries(b)), trouble(b)),
    checkpoints(b), partitions(b, v));
}

function part(title, hint, ...content) {
  return h("section", {}, h("h3", { title: hint }, title), ...content);
}

function facts(b, v) {
  const decided = b.decided_epoch
    ? [`epoch ${count(b.decided_epoch)} decided`, b.last_decided_ms ? ` ${ago((v.now - b.last_decided_ms) / 1000)}` : " before this run"]
    : "no epoch decided yet";
  return h("ul.facts", {},
    h("li", { title: "What this bridge promises; see the README" }, b.semantic),
    h("li", { title: "Where the bridge's protocol stands" }, b.state),
    h("li", { title: "An epoch is what is moved between two barriers" }, b.epoch ? `epoch ${count(b.epoch)} open` : "no epoch open"),
    h("li", { title: "A decided epoch counts: it is what a reader sees" }, decided));
}

// why says why the bridge is not ready and what it waits for, nothing of it twice.
function why(b, v) {
  const waits = b.waits_for && !b.reason?.includes(b.waits_for);
  const waiting = (b.waiting || []).filter(w => !b.reason?.includes(w) && !b.waits_for?.includes(w));
  return h("div.why", {},
    !b.ready && h(v.stale ? "p.reason" : "p.reason.bad", {}, h("strong", {}, "Not ready: "), b.reason || "no reason given"),
    waits && h("p.waits-for", {}, h("span.faint", {}, v.stale ? "waited for " : "waits for "), b.waits_for),
    waiting.length > 0 && h("ul.waiting", { "aria-label": "What is being waited for" }, waiting.map(w => h("li", {}, "waits: ", w))));
}

// ---- the way of a record ----

function way(b, v) {
  const m = b.maps;
  return h("div.way", { role: "group", "aria-label": "The way of a record" },
    h("div.stop", {}, (b.sources || []).map(s => source(b, s, v))),
    arrow(), h("div.stop", {}, maps(b, m, v)),
    arrow(), h("div.stop", {}, sink(b, m, v)));
}

const arrow = () => h("span.arrow", { "aria-hidden": "true" }, "→");

// present are a source's partitions, without those of topics that do not exist now.
const present = s => (s.partitions || []).filter(p => !p.gone);

function source(b, s, v) {
  const list = present(s);
  const topics = new Set(list.map(p => p.topic)).size;
  return h("div.step", {}, h("p.what", {}, h("span", {}, "source"), " ", h("strong", {}, s.name)),
    speed(b, `in ${s.name}`, `bytes ${s.name}`, v),
    numbers(
      ["lag", lag(list), "Offsets from the bridge's position to the last one that it may read", list.length && list.every(p => p.lag === 0) ? "good" : ""],
      ["read", plural(s.records_in, "record"), "Since this process began, in whole batches"],
      ["from", `${plural(topics, "topic")}, ${plural(list.length, "partition")}`],
      ["in flight", bytes(s.in_flight_bytes), "Fetched and not yet acknowledged by the sink"]));
}

// lag is that of all partitions together. One that nobody knows must not pass for zero.
function lag(list) {
  const dark = list.filter(unknown).length;
  if (dark === list.length) return "unknown";
  return (dark ? "at least " : "") + plural(sum(list, p => Math.max(0, p.lag)), "record");
}

function maps(b, m, v) {
  const chain = b.chain || [];
  const through = m.untouched_batches + sum(Object.values(m.reencoded_batches || {}), n => n);
  return h("div.step", {}, h("p.what", {}, h("span", {}, chain.length === 1 ? "map" : "maps")),
    chain.length ? h("ol.chain", {}, chain.map(kind => h("li", {}, kind))) : h("p.faint", {}, "none: records go on as they are"),
    numbers(
      m.records_dropped > 0 && ["dropped", `${plural(m.records_dropped, "record")}${perSecond(b, "dropped", v)}`, "Records for which a map emitted nothing, since this process began"],
      ...Object.entries(m.dropped_by || {}).filter(() => chain.length > 1).map(([kind, n]) => [`by ${kind}`, plural(n, "record")]),
      through > 0 && ["untouched", `${(100 * m.untouched_batches / through).toFixed(m.untouched_batches % through ? 1 : 0)} % of batches`, "Batches handed on as they came, without decoding"],
      ...Object.entries(m.reencoded_batches || {}).map(([reason, n]) => [`encoded anew: ${reason}`, plural(n, "batch", "batches")])));
}

function sink(b, m, v) {
  return h("div.step", {}, h("p.what", {}, h("span", {}, "sink"), " ", h("strong", {}, b.sink)),
    speed(b, "out", "out bytes", v),
    numbers(
      ["written", plural(m.records_out, "record"), "Since this process began, those of aborted epochs included"],
      ["size", bytes(m.bytes_out), "Of the batches written, after compression"],
      ["batches", count(m.batches_out)]));
}

// speed is a rate in large figures, with its last two minutes as a line.
function speed(b, records, size, v) {
  const now = v.stale ? null : rate(b.bridge, records);
  const inBytes = v.stale ? null : rate(b.bridge, size);
  return h("div.speed", {},
    h("p", {}, h("span.figure", {}, now === null ? "–" : count(now)), " records/s"),
    h("p.faint", {}, inBytes === null ? "–" : `${bytes(inBytes)}/s`),
    line(rates(b.bridge, records)));
}

function line(values) {
  const top = Math.max(1, ...values);
  const wide = Math.max(values.length, 20) - 1;
  const points = values.map((v, i) => `${100 - (values.length - 1 - i) * 100 / wide},${22 - 20 * v / top}`).join(" ");
  return h("svg.line", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, h("polyline", { points }));
}

function perSecond(b, name, v) {
  const now = v.stale ? null : rate(b.bridge, name);
  return now === null ? "" : `, ${count(now)}/s`;
}

// numbers is a list of [what, value, hint, class].
const numbers = (...rows) => definitions("dl.numbers", rows);

function definitions(tag, rows) {
  return h(tag, {}, rows.filter(Boolean).map(([what, value, hint, tone]) =>
    h("div", { title: hint ?? null }, h("dt", {}, what), h(tone ? "dd." + tone : "dd", {}, value))));
}

const unknown = p => p.lag < 0;
const sum = (list, f) => list.reduce((total, x) => total + f(x), 0);

// ---- what is open, and what went wrong ----

function transactions(b) {
  const t = b.transaction;
  const budget = t.downtime_budget_seconds;
  const title = part.bind(null, "Transactions", "What this bridge has open on the sink cluster, against the time after which the broker aborts it");
  if (b.semantic !== "EXACTLY_ONCE") return title(h("p.faint", {}, `None: ${b.semantic} writes without transactions.`));
  return title(
    transaction("prepared", "Every record is acknowledged; it waits for its commit, and survives a crash", t.prepared, t.prepared_age_seconds, t.timeout_seconds),
    transaction("open", "What is being written now", t.open, t.open_age_seconds, t.timeout_seconds),
    budget !== undefined && h("p.budget", { title: "How long the bridge may be down from now on and still commit what it has prepared instead of reading it again" },
      "Downtime budget: ", budget > 0 ? h("strong", {}, duration(budget)) : h("strong.bad", {}, "used up")));
}

function transaction(kind, hint, id, age, timeout) {
  if (!id) return h("div.txn", {}, h("p", {}, h("span.kind", { title: hint }, kind), h("span.faint", {}, "none")));
  return h("div.txn", {},
    h("p", {}, h("span.kind", { title: hint }, kind), h("span.id", { title: "transactional id, producer id and producer epoch" }, id)),
    h("meter", { min: 0, max: timeout || 1, high: 0.7 * timeout, optimum: 0, value: age, "aria-label": `age of the ${kind} transaction against its timeout` }),
    h("p.faint", {}, age > 0 ? `${duration(age)} of ${duration(timeout)}` : `nothing written yet; timeout ${duration(timeout)}`));
}

function trouble(b) {
  const m = b.maps;
  const errors = Object.entries(m.map_errors || {}).flatMap(([kind, by]) => Object.entries(by).map(([policy, n]) => ({ kind, policy, n })));
  const row = (what, n, hint) => [what, count(n), hint, n > 0 ? "wait" : "faint"];
  const gaps = (b.sources || []).flatMap(s => s.gaps || []);
  return part("Trouble since the process began", "All zero on a good day",
    definitions("dl.tiles", [
      row("restarts", b.restarts, "Recoveries inside this process after a failure"),
      row("read again", b.replayed_records, "Records, because the broker had aborted their transaction; a reader sees them once all the same"),
      row("map errors", sum(errors, e => e.n), "Records for which a map failed"),
      row("refused by sink", m.rejected, "Records that the sink does not take"),
      row("dead letters", m.dead_letters, "Source records that could not be moved, in a topic of their own"),
      row("gaps", b.gaps, "Ranges of source offsets that were to be read and are no longer there")]),
    b.last_failure && h("p.reason.wait", {}, "Last failure", b.last_failure_ms ? [" at ", moment(b.last_failure_ms)] : "", ": ", b.last_failure),
    errors.length > 0 && h("ul.list", {}, errors.map(e => h("li", {}, `map ${e.kind} failed for ${plural(e.n, "record")}: ${e.policy}`))),
    gaps.length > 0 && h("ul.list", { "aria-label": "The last gaps" }, gaps.map(g =>
      h("li", {}, `${g.source}: ${g.topic}/${g.partition} from ${count(g.from)} ${g.to < 0 ? "on" : "to " + count(g.to - 1)} is gone (${g.reason})`))));
}

// ---- tables ----

// table takes heads as { text, hint, type } and rows of cells; a head's type is the class of its column.
function table(label, heads, rows) {
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map(c => h(cell("th", c), { scope: "col", title: c.hint ?? null }, c.text)))),
    h("tbody", {}, rows.map(r => h("tr", {}, r.map((content, i) => h(cell("td", heads[i]), {}, content)))))));
}

const cell = (tag, head) => head.type ? `${tag}.${head.type}` : tag;

function checkpoints(b) {
  const recent = (b.recent_checkpoints || []).toReversed();
  const took = c => sum(Object.keys(phases), p => c[`${p}_seconds`]);
  const longest = Math.max(0, ...recent.map(took));
  const results = Object.entries(b.checkpoints || {}).map(([result, n]) => `${count(n)} ${result}`).join(", ");
  const size = b.checkpoint_bytes > 0 && h("span.faint.plain", { title: "Of the newest checkpoint in the state directory" }, `${bytes(b.checkpoint_bytes)} stored`);
  const title = part.bind(null, "Checkpoints", "The last ones, newest first");
  if (!recent.length) return title(h("p.legend", {}, h("span.faint.plain", {}, "None yet in this run."), size));
  const rows = recent.map(c => [count(c.epoch), result(c.result), moment(c.began_ms), bar(c, longest), duration(took(c)), ...Object.keys(phases).map(p => duration(c[`${p}_seconds`]))]);
  return title(
    h("p.legend", {}, Object.entries(phases).map(([p, hint]) => h("span." + p, { title: hint }, p)), h("span.faint.plain", {}, `the longest bar is ${duration(longest)}`), h("span.faint.plain", {}, results), size),
    table(`Checkpoints of ${b.bridge}`, [{ text: "epoch", type: "n" }, { text: "result" }, { text: "began", type: "n.wide" }, { text: "phases", type: "bar" }, { text: "took", type: "n" },
      ...Object.entries(phases).map(([p, hint]) => ({ text: p, hint, type: "n.wide" }))], rows));
}

function result(r) {
  return h(r === "decided" ? "span.good" : r === "failed" ? "span.bad" : "span.wait", {}, r || "under way");
}

function bar(c, longest) {
  const label = Object.keys(phases).map(p => `${p} ${duration(c[`${p}_seconds`])}`).join(", ");
  let x = 0;
  const parts = Object.keys(phases).map(p => {
    const width = longest ? 1000 * c[`${p}_seconds`] / longest : 0;
    x += width;
    return h("rect." + p, { x: x - width, width, height: 10 });
  });
  return h("svg.phases", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": label }, h("title", {}, label), parts);
}

function partitions(b, v) {
  const sources = b.sources || [];
  const all = sources.flatMap(s => present(s).map(p => ({ ...p, source: s.name })));
  const filter = v.filters.get(b.bridge) || "";
  const wanted = all.filter(p => `${p.source} ${p.topic}/${p.partition}`.toLowerCase().includes(filter.toLowerCase()));
  wanted.sort((x, y) => unknown(y) - unknown(x) || y.lag - x.lag); // the worst first: what nobody knows, then what is far behind
  const shown = wanted.slice(0, most);
  const id = anchor(b) + "-filter";
  const columns = [
    sources.length > 1 && { text: "source", type: "name", of: p => p.source },
    { text: "topic", type: "name", of: p => p.topic },
    { text: "partition", type: "n", of: p => p.partition },
    { text: "lag", hint: "Offsets from the position to the last one that the bridge may read", type: "n", of: p => p.lag < 0 ? "unknown" : h(p.lag ? "strong" : "span.faint", {}, count(p.lag)) },
    { text: "position", hint: "The next offset to hand over", type: "n", of: p => p.position < 0 ? "unknown" : count(p.position) },
    { text: "held back", hint: "Offsets behind an open transaction of the source", type: "n.wide", of: p => count(Math.max(0, p.high_watermark - p.last_stable)) },
    all.some(p => p.held_seconds > 0) && { text: "for", hint: "How long that transaction has held the partition where it is", type: "n.wide", of: p => p.held_seconds > 0 && duration(p.held_seconds) },
    all.some(p => p.held_by) && { text: "by", hint: "Whose transaction it is", type: "name.wide", of: p => p.held_by && holder(p.held_by) },
    all.some(p => p.gaps > 0) && { text: "gaps", hint: "Ranges that were gone before they were read", type: "n.wide", of: p => count(p.gaps) },
    all.some(p => p.waiting) && { text: "waits for", type: "name.wide", of: p => p.waiting || "" },
  ].filter(Boolean);
  return part("Partitions", "Of the sources, furthest behind first",
    h("p", {}, `Lag ${lag(all)} in all; ${count(all.filter(p => p.lag > 0).length)} of ${plural(all.length, "partition")} behind`,
      all.some(unknown) && `, ${count(all.filter(unknown).length)} unknown`, "."),
    ...held(all, sources),
    h("p.filter", {}, h("label", { for: id }, "Filter "), h("input", { id, type: "search", "data-bridge": b.bridge, placeholder: "topic/partition", autocomplete: "off", spellcheck: "false" }),
      h("span.faint", {}, shown.length < wanted.length ? `the first ${count(shown.length)} of ${count(wanted.length)}` : `${count(wanted.length)} shown`)),
    shown.length > 0 && table(`Partitions of ${b.bridge}`, columns, shown.map(p => columns.map(c => c.of(p)))));
}

// held tells who holds partitions back, whoever has done so longest first. One transaction may hold a thousand.
function held(all, sources) {
  const by = new Map();
  for (const p of all.filter(p => p.held_seconds > 0).sort((x, y) => y.held_seconds - x.held_seconds)) {
    const who = p.held_by ? holder(p.held_by) : "a transaction, whose is not known,";
    if (!by.has(who)) by.set(who, []);
    by.get(who).push(p);
  }
  if (!by.size) return [];
  const one = ([who, [longest, ...others]]) => h("li", {},
    h("strong.wait", {}, who), ` holds back ${longest.topic}/${longest.partition} for ${duration(longest.held_seconds)}`,
    others.length > 0 && ` and ${plural(others.length, "more partition")}`,
    longest.held_by?.since_ms > 0 && ["; it began at ", moment(longest.held_by.since_ms)]);
  return [h("ul.list", { "aria-label": "Who holds partitions back" }, [...by].slice(0, most).map(one)),
    ...sources.filter(s => s.holders_unknown).map(s => h("p.faint.text", {}, s.holders_unknown))];
}

function holder(by) {
  if (by.own) return `this bridge (${by.transactional_id})`;
  return by.transactional_id ? `transactional id ${by.transactional_id}` : `producer id ${by.producer_id}`;
}

function recoveries(b) {
  const recent = (b.recent_recoveries || []).toReversed();
  const totals = Object.entries(b.recoveries || {}).map(([outcome, n]) => `${count(n)} ${outcome}`).join(", ");
  return part("Recoveries", "What the starts of this process found and did, newest first",
    totals ? h("p.faint", {}, `Since the process began: ${totals}.`) : h("p.faint", {}, "None yet: the bridge is still finding out where it stands."),
    recent.length > 0 && h("ol.recoveries", { "aria-label": "The last recoveries" }, recent.map(r => h("li", {},
      moment(r.at_ms), " ", h(["clean", "committed"].includes(r.outcome) ? "span.badge.good" : "span.badge.wait", { title: outcomes[r.outcome] ?? null }, r.outcome), " ",
      h("span.text", {}, r.reason, r.replayed_records > 0 && ` (${plural(r.replayed_records, "record")} read again)`)))));
}
