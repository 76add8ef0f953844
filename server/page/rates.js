// What the counters of successive status documents say about now.

const kept = 120; // documents, two minutes
const span = 5; // documents that a rate is taken over: one alone jumps from checkpoint to checkpoint

const past = new Map(); // bridge → [{ at, run, values }], oldest first

// remember adds the counters of a bridge. Another incarnation counts from zero again.
export function remember(b, at) {
  const values = { out: b.maps.records_out, "out bytes": b.maps.bytes_out, dropped: b.maps.records_dropped };
  for (const s of b.sources || []) {
    values[`in ${s.name}`] = s.records_in;
    values[`bytes ${s.name}`] = s.bytes_in;
  }
  let list = past.get(b.bridge) || [];
  if (list.length && list.at(-1).run !== b.incarnation) list = [];
  past.set(b.bridge, [...list, { at, run: b.incarnation, values }].slice(-kept));
}

// rate is how much a counter grew in a second lately, null when that is not known yet.
export function rate(bridge, name) {
  const list = past.get(bridge) || [];
  return between(list[Math.max(0, list.length - 1 - span)], list.at(-1), name);
}

// rates are those between all neighbours, oldest first.
export function rates(bridge, name) {
  const list = past.get(bridge) || [];
  return list.slice(1).map((now, i) => between(list[i], now, name));
}

// forget is for the time without answers: growth over it says nothing about now.
export const forget = () => past.clear();

function between(a, b, name) {
  return a && b && b.at > a.at ? Math.max(0, b.values[name] - a.values[name]) / ((b.at - a.at) / 1000) : null;
}
