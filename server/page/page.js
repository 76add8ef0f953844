// The status page: asks for the status document every second and shows it. Whatever comes from there is put in as text,
// never as markup: topic names and error texts are other people's.
import { h, morph, moment, duration } from "./dom.js";
import { forget, remember } from "./rates.js";
import { overview } from "./view.js";

const every = 1000; // ms between two looks
const everyHidden = 10_000; // while nobody can see the page
const patience = 5000; // ms for an answer
const tokenKey = "token";

const part = id => document.getElementById(id);
const filters = new Map(); // bridge → what its partitions are filtered by
let last = null; // the newest document
let heard = null; // ms, when it came; before the first one: when the page was opened
const opened = Date.now();
let lost = ""; // why there is no answer; "" while there is
let skew = 0; // ms that the daemon's clock is ahead of this one
let timer = 0;

// ask returns the document, or null when a token is needed. Whatever else goes wrong is an Error that says what.
async function ask() {
  const token = sessionStorage.getItem(tokenKey);
  let answer;
  try {
    answer = await fetch("status", {
      cache: "no-store", redirect: "error", signal: AbortSignal.timeout(patience),
      headers: token ? { Authorization: `Bearer ${token}` } : {},
    });
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? `it does not answer within ${patience / 1000} s` : "it cannot be reached", { cause: e });
  }
  if (answer.status === 401) return null;
  if (!answer.ok) throw new Error(`it answers with the HTTP status ${answer.status}`);
  try {
    const d = await answer.json();
    if (!Array.isArray(d?.bridges)) throw new TypeError("no bridges");
    skew = (Date.parse(answer.headers.get("Date")) || Date.now()) - Date.now();
    return d;
  } catch (e) {
    throw new Error("its answer is cut off or is no status", { cause: e });
  }
}

async function look() {
  clearTimeout(timer);
  let d;
  try {
    d = await ask();
    lost = "";
  } catch (e) {
    lost = e.message;
    forget();
  }
  if (d === null) { // asking again without a token would only fill the daemon's log
    needToken();
    return;
  }
  timer = setTimeout(look, document.hidden ? everyHidden : every);
  if (d) {
    last = d;
    heard = Date.now();
    part("token").hidden = true;
    for (const b of d.bridges) remember(b, performance.now());
  }
  show();
}

function show() {
  document.body.classList.toggle("stale", lost !== "");
  contact();
  if (!last) return;
  const cards = overview(last, { stale: lost !== "", now: Date.now() + skew, filters });
  morph(part("bridges"), h("main", { id: "bridges" }, cards));
  part("version").textContent = last.version;
}

// contact tells whether what is shown is true now. The texts that are read aloud change only when that does.
function contact() {
  const since = heard ?? opened;
  const bridges = last ? last.bridges.map(b => `${b.bridge} is ${b.ready ? "ready" : "not ready"}`).join(", ") : "";
  if (lost) {
    const what = last ? " What is shown below is as it was then." : "";
    say("lost", `No answer from the daemon since `, moment(since), `: ${lost}.${what}`);
    morph(part("contact"), h("p", { id: "contact" }, `silent for ${duration((Date.now() - since) / 1000)}`));
    document.title = "no answer: bridge";
    return;
  }
  say("lost");
  say("said", bridges);
  morph(part("contact"), h("p", { id: "contact" }, heard ? h("span.dot", { title: "This page asks every second" }, "live") : "loading", heard && ", updated ", heard && moment(heard)));
  document.title = last && !last.ready ? "not ready: bridge" : "bridge";
}

function say(id, ...text) {
  const before = part(id);
  const after = h("p", {}, ...text);
  if (before.textContent !== after.textContent) before.replaceChildren(...after.childNodes);
}

function needToken() {
  lost = "it asks for a token";
  forget();
  show();
  say("lost", last ? h("span", {}, "The daemon asks for a token. What is shown below is as it was at ", moment(heard), ".") : "");
  morph(part("contact"), h("p", { id: "contact" }, "locked"));
  document.title = "token: bridge";
  say("refused", sessionStorage.getItem(tokenKey) ? "The daemon does not accept this token." : "");
  sessionStorage.removeItem(tokenKey);
  part("token").hidden = false;
  part("secret").focus();
}

part("token").addEventListener("submit", e => {
  e.preventDefault();
  const token = part("secret").value;
  part("secret").value = "";
  if (!/^[\x21-\x7e]+$/.test(token)) { // would be no header
    say("refused", "A token has no spaces and no letters beyond ASCII.");
    return;
  }
  sessionStorage.setItem(tokenKey, token);
  look();
});

part("bridges").addEventListener("input", e => {
  filters.set(e.target.dataset.bridge, e.target.value);
  show();
});

document.addEventListener("visibilitychange", () => { if (!document.hidden && part("token").hidden) look(); });

look();
