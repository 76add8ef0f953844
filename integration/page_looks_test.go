package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
	"kafkabridge/server"
)

// pageLooks: light, dark, and a phone; long names break.
func pageLooks(t *testing.T, browser context.Context) {
	base, bridges := serve(t, server.Options{}, sample(time.Now()))
	stop := moves(bridges[0])
	b := openTab(t, browser, base)
	b.sees("rates", "[...document.querySelectorAll('.figure')].filter(e => parseFloat(e.textContent) > 10).length === 2")
	points := 3
	if *pageShots != "" {
		points = 11 // a picture wants more of it
	}
	b.sees("a line of them", fmt.Sprintf("document.querySelector('polyline').points.length >= %d", points))
	b.fits(1280)
	light := b.text("getComputedStyle(document.body).backgroundColor")
	b.shot("light")
	b.screen(1160, 880, 1)
	b.keep("readme", chromedp.CaptureScreenshot()) // is server/page/screenshot.png
	b.screen(1280, 900, 1)
	b.theme("dark")
	if dark := b.text("getComputedStyle(document.body).backgroundColor"); light != "rgb(244, 245, 247)" || dark != "rgb(18, 21, 26)" {
		t.Errorf("the ground is %s in light and %s in dark", light, dark)
	}
	b.readable()
	b.shot("dark")
	b.theme("light")
	b.readable()
	b.screen(360, 740, 2)
	b.fits(360)
	b.shot("phone")
	stop()
	long := sample(time.Now())
	long.Ready, long.Reason = false, "source "+strings.Repeat("long", 60)+": dial tcp 10.0.0.1:9092: connect: connection refused"
	long.Bridge, long.Sources[0].Name, long.Sink = strings.Repeat("b", 100), strings.Repeat("source", 20), strings.Repeat("sink", 30)
	long.Chain, long.LastFailure = []string{strings.Repeat("map", 40)}, strings.Repeat("x", 500)
	long.Sources[0].Partitions[0].Topic = strings.Repeat("t", 249)
	long.Transaction.Prepared = strings.Repeat("id", 100)
	bridges[0].now.Store(&long)
	b.says("h2", strings.Repeat("b", 100))
	b.fits(360)
	b.shot("phone-long-names")
}

// readable: every text has the contrast that WCAG 2 AA asks for, 4.5 to 1, or 3 to 1 when it is large.
func (b *tab) readable() {
	b.t.Helper()
	bad := b.text(`(() => {
		const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
		const rgb = s => s.match(/[\d.]+/g).map(Number);
		const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
		const bad = new Set();
		for (const e of document.querySelectorAll("body *")) {
			if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.namespaceURI.endsWith("svg")) continue;
			const s = getComputedStyle(e), a = lum(rgb(s.color).slice(0, 3)), g = lum(ground(e));
			const ratio = (Math.max(a, g) + .05) / (Math.min(a, g) + .05);
			if (ratio < (parseFloat(s.fontSize) >= 24 ? 3 : 4.5)) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
		}
		return [...bad].join(", ");
	})()`)
	if bad != "" {
		b.t.Errorf("hard to read: %s", bad)
	}
}

// pageHostile: whatever other people's names hold is text.
func pageHostile(t *testing.T, browser context.Context) {
	// The last two characters would turn around and hide what stands beside them: they are written out.
	const name = `"'><img src=x onerror="window.hurt=1"><script>window.hurt=1</script><svg onload=window.hurt=1><a href="javascript:window.hurt=1">` + "\u202e\u0000&amp;"
	s := sample(time.Now())
	s.Bridge, s.Semantic, s.State, s.Ready, s.Reason, s.LastFailure = name, name, name, false, name, name
	s.Semantic = "EXACTLY_ONCE"
	s.WaitsFor, s.Waiting, s.Chain, s.Sink = "2 "+name, []string{"1 " + name}, []string{name, name}, name
	s.Transaction.Open, s.Transaction.Prepared = name, name
	s.Recoveries, s.Checkpoints = map[string]int64{name: 1}, map[string]int64{name: 1}
	s.RecentRecoveries = []bridge.RecoveryStatus{{Outcome: name, Reason: name}}
	s.RecentCheckpoints = []bridge.CheckpointStatus{{Epoch: 1, Result: name}}
	s.Maps.DroppedBy, s.Maps.Reencoded = map[string]int64{name: 1, "__proto__": 1}, map[string]int64{name: 1}
	s.Maps.MapErrors = map[string]map[bridge.Policy]int64{name: {bridge.Policy(name): 1}}
	s.Sources[0].Name, s.Sources[0].Waiting = name, []string{name}
	s.Sources[0].Gaps = []bridge.Gap{{Source: name, Topic: name, Reason: name}}
	s.Sources[0].HoldersUnknown = name
	p := &s.Sources[0].Partitions[0]
	p.Topic, p.Waiting, p.HeldSecs, p.HeldBy = name, name, 1000, &bridge.Holder{TransactionalID: name}
	harmless := sample(time.Now())
	harmless.Ready, harmless.Reason, harmless.Waiting = false, "why", []string{"1 for something"}
	harmless.Transaction.Prepared = "orders-0"
	harmless.Maps.Reencoded = map[string]int64{"map": 1}
	harmless.Sources[0].HoldersUnknown = "nobody may ask"
	harmless.Sources[0].Gaps = []bridge.Gap{{Source: "a", Topic: "b", Reason: "c"}}
	harmless.RecentRecoveries = harmless.RecentRecoveries[:1]
	harmless.RecentCheckpoints = harmless.RecentCheckpoints[:1]

	base, bridges := serve(t, server.Options{}, s, s)
	b := openTab(t, browser, base)
	b.says("h2", "window.hurt=1</script>")
	b.sees("every name as it is", fmt.Sprintf(`document.querySelector("#bridges h2").textContent === %s`, jsText(strings.NewReplacer("\u202e", `\u202e`, "\x00", `\u0000`).Replace(name))))
	b.shot("hostile")
	kinds := `[...new Set([...document.querySelectorAll("*")].map(e => e.tagName.toLowerCase()))].sort().join()`
	hostile := b.text(kinds)
	foreign := `[...document.querySelectorAll("*")].flatMap(e => [...e.attributes].map(a => a.name)).filter(n => n.startsWith("on") || n === "src" || n === "style").join()`
	if got := b.text(foreign); got != "src" { // of page.js
		t.Errorf("attributes that load or run something: %s", got)
	}
	if n := b.number(`document.scripts.length + document.querySelectorAll("img, iframe, object, embed, a[href^='javascript']").length`); n != 1 {
		t.Errorf("%d elements that load or run something, want the page's script alone", n)
	}
	if got := b.text("String(window.hurt)"); got != "undefined" {
		t.Errorf("a name ran as a script: %s", got)
	}
	if text := b.text("document.getElementById('bridges').textContent"); strings.Count(text, "onerror=") < 2*22 {
		t.Errorf("the names are in %d places only: is everything shown?", strings.Count(text, "onerror="))
	}
	for _, at := range bridges {
		at.now.Store(&harmless)
	}
	b.says("h2", "orders")
	if want := b.text(kinds); hostile != want {
		t.Errorf("hostile names make the elements\n%s, harmless ones\n%s", hostile, want)
	}
}

// jsText is a text as a literal of the browser's language.
func jsText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		fmt.Fprintf(&b, "\\u{%x}", r)
	}
	b.WriteByte('"')
	return b.String()
}

// pageThousand: of a thousand partitions the first fifty are shown, the worst first, with the sum of all, and a filter.
func pageThousand(t *testing.T, browser context.Context) {
	s := sample(time.Now())
	s.Sources[0].Partitions = nil
	for p := range int32(1000) {
		lag := int64(p) // 0 + 1 + … + 998 = 498,501
		if p == 999 {
			lag = -1
		}
		s.Sources[0].Partitions = append(s.Sources[0].Partitions, bridge.PartitionStatus{Topic: fmt.Sprintf("topic-%d", p%10), Partition: p, Position: 5, LastStable: 5 + lag, HighWatermark: 5 + lag, Lag: lag})
	}
	base, bridges := serve(t, server.Options{}, s)
	b := openTab(t, browser, base)
	b.says(".bridge", "Lag at least 498,501 records in all; 998 of 1,000 partitions behind, 1 unknown.")
	b.says(".filter", "the first 50 of 1,000")
	const order = `[...document.querySelectorAll("[aria-label='Partitions of orders'] tbody tr")].map(r => r.cells[1].textContent + ":" + r.cells[2].textContent).join(" ")`
	rows := strings.Fields(b.text(order))
	if len(rows) != 50 || rows[0] != "999:unknown" || rows[1] != "998:998" || rows[49] != "950:950" {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	b.run(chromedp.SendKeys("#bridge-orders-filter", "topic-7/1"))
	b.says(".filter", "11 shown") // 17 and 107, 117, … 197
	if rows := strings.Fields(b.text(order)); len(rows) != 11 || rows[0] != "197:197" || rows[10] != "17:17" {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	// What is typed stays while the page goes on.
	s.Epoch = 77
	bridges[0].now.Store(&s)
	b.says(".facts", "epoch 77 open")
	if got := b.text("document.activeElement.id + document.activeElement.value"); got != "bridge-orders-filtertopic-7/1" {
		t.Errorf("the field that is typed in is now %q", got)
	}
	b.shot("thousand-partitions")
}

// pageHolders: whoever holds partitions back is named as far as it is known; a topic that is gone counts for nothing.
func pageHolders(t *testing.T, browser context.Context) {
	s := sample(time.Now())
	budget := 0.0
	s.Transaction.Budget, s.WaitsFor, s.Reason, s.Ready = &budget, "the sink", "checkpoint 7 waits for the sink", false
	s.Sources[0].HoldersUnknown = "only producer ids are told"
	held := func(p int32, seconds float64, by *bridge.Holder) bridge.PartitionStatus {
		return bridge.PartitionStatus{Topic: "orders", Partition: p, Position: 10, LastStable: 10, HighWatermark: 15, HeldSecs: seconds, HeldBy: by}
	}
	s.Sources[0].Partitions = []bridge.PartitionStatus{
		held(0, 30, &bridge.Holder{ProducerID: 4711}),
		held(1, 7200, &bridge.Holder{TransactionalID: "billing-3", ProducerID: 1}),
		held(2, 40, &bridge.Holder{TransactionalID: "orders-0", ProducerID: 2, Own: true}),
		held(3, 9000, &bridge.Holder{TransactionalID: "billing-3", ProducerID: 1}),
		held(4, 8, nil),
		{Topic: "orders", Partition: 5, Position: 10, LastStable: 10, HighWatermark: 10},
		{Topic: "deleted", Partition: 0, Position: 10, LastStable: 99, HighWatermark: 99, Lag: 89, Gone: true, HeldSecs: 99_999},
	}
	base, bridges := serve(t, server.Options{}, s)
	b := openTab(t, browser, base)
	b.is(".badge", "not ready")
	const list = `[...document.querySelectorAll("[aria-label='Who holds partitions back'] li")].map(e => e.textContent).join("|")`
	if got := b.text(list); got != "transactional id billing-3 holds back orders/3 for 2.5 h and 1 more partition|"+
		"this bridge (orders-0) holds back orders/2 for 40 s|producer id 4711 holds back orders/0 for 30 s|a transaction, whose is not known, holds back orders/4 for 8.0 s" {
		t.Errorf("held back: %s", got)
	}
	b.says(".bridge", "only producer ids are told")
	b.says(".bridge", "Lag 0 records in all; 0 of 6 partitions behind.")
	b.says(".numbers", "1 topic, 6 partitions")
	b.says(".budget .bad", "used up")
	b.says(".legend", "47.2 KiB stored")
	if text := b.text("document.getElementById('bridges').textContent"); strings.Contains(text, "deleted") {
		t.Errorf("a topic that is gone is shown: %s", text)
	}
	if n := b.number("document.querySelectorAll('.waits-for').length"); n != 0 {
		t.Error("what the reason says is said again")
	}
	b.screen(360, 740, 2)
	b.fits(360)
	b.shot("phone-held-back")
	free := s
	free.Sources = slices.Clone(s.Sources) // the surface may still be reading the others
	free.Sources[0].Partitions = s.Sources[0].Partitions[5:]
	free.Ready, free.Reason = true, ""
	bridges[0].now.Store(&free)
	b.is(".waits-for", "waits for the sink")
	b.sees("that nobody holds back", "!document.querySelector(\"[aria-label='Who holds partitions back']\") && !document.body.textContent.includes('only producer ids')")
}

// pageToken: without a token the page holds no data; a wrong one is refused, the right one is kept by this tab alone.
func pageToken(t *testing.T, browser context.Context) {
	var token atomic.Value
	token.Store("right-one")
	base, _ := serve(t, server.Options{Token: func() string { return token.Load().(string) }}, sample(time.Now()))
	b := openTab(t, browser, "about:blank")
	b.silence(true)
	b.open(base)
	b.run(chromedp.WaitVisible("#secret"))
	if got := b.text("document.getElementById('secret').type + document.getElementById('bridges').children.length"); got != "password0" {
		t.Errorf("field and bridges: %s", got)
	}
	// The page's own files came without one; chromium lists no answer of 401.
	const files = `performance.getEntriesByType("resource").filter(e => e.responseStatus === 200).map(e => new URL(e.name).pathname).sort().join()`
	if got := b.text(files); got != "/dom.js,/page.css,/page.js,/rates.js,/view.js" {
		t.Errorf("without a token the daemon gives %s", got)
	}
	b.shot("token")
	b.run(chromedp.SendKeys("#secret", "wrong-one"+kb.Enter))
	b.is("#refused", "The daemon does not accept this token.")
	if got := b.text("document.activeElement.id + document.activeElement.value + document.getElementById('bridges').children.length"); got != "secret0" {
		t.Errorf("after a wrong token it does not ask again: %s", got)
	}
	b.run(chromedp.SendKeys("#secret", "ä ö"+kb.Enter))
	b.says("#refused", "no spaces")
	b.run(chromedp.SendKeys("#secret", "right-one"+kb.Enter))
	b.is(".badge", "ready")
	b.run(chromedp.WaitNotVisible("#token"))
	if got := b.text("JSON.stringify([sessionStorage.token, localStorage.length, document.cookie, location.href])"); got != fmt.Sprintf(`["right-one",0,"",%q]`, base) {
		t.Errorf("the token is kept in: %s", got)
	}
	if strings.Contains(b.text("document.documentElement.outerHTML + document.getElementById('secret').value"), "right-one") {
		t.Error("the token stands in the page")
	}
	token.Store("another")
	b.run(chromedp.WaitVisible("#secret"))
	b.says("#lost", "asks for a token")
	b.is(".badge", "was ready")
	if got := b.text("String(sessionStorage.token)"); got != "undefined" {
		t.Errorf("a token that is refused is kept: %s", got)
	}
}

// pageKeyboard: everything that can be used has a name and can be reached with the tab key, and what has changed is said.
func pageKeyboard(t *testing.T, browser context.Context) {
	other := sample(time.Now())
	other.Bridge = "payments"
	base, bridges := serve(t, server.Options{}, sample(time.Now()), other)
	b := openTab(t, browser, base)
	b.says("#said", "orders is ready, payments is ready")
	reached := map[string]bool{}
	for range 12 {
		b.run(chromedp.KeyEvent(kb.Tab))
		reached[b.text(`(e => e.id || e.getAttribute("aria-label") || e.textContent)(document.activeElement)`)] = true
	}
	for _, want := range []string{"orders", "payments", "Checkpoints of orders", "bridge-orders-filter", "Partitions of payments", "The words on this page"} {
		if !reached[want] {
			t.Errorf("the tab key does not come to %q, but to %v", want, reached)
		}
	}
	if n := b.number(`[...document.querySelectorAll("input, meter, [tabindex]")].filter(e => !e.getAttribute("aria-label") && !e.labels?.length).length`); n != 0 {
		t.Errorf("%d fields without a name", n)
	}
	sick := sample(time.Now())
	sick.Ready, sick.Reason = false, "the ledger does not answer"
	bridges[0].now.Store(&sick)
	b.says("#said", "orders is not ready, payments is ready")
	b.says("nav", "not ready")
	if title := b.text("document.title"); title != "not ready: bridge" {
		t.Errorf("title %q", title)
	}
	b.shot("two-bridges")
}

// pageOddAnswers: what an older or newer daemon says, and answers that are none.
func pageOddAnswers(t *testing.T, browser context.Context) {
	var answer atomic.Value // a function
	answer.Store(func(w http.ResponseWriter, d server.Document) { _ = json.NewEncoder(w).Encode(d) })
	mux := http.NewServeMux()
	mux.Handle("/", server.New("v9", nil, server.NewMetrics(), hclog.NewNullLogger()).Handler())
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		answer.Load().(func(http.ResponseWriter, server.Document))(w, server.Document{Version: "v9", Ready: true, Bridges: []bridge.Status{sample(time.Now())}})
	})
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	b := openTab(t, browser, h.URL+"/")
	b.is(".badge", "ready")
	b.silence(true)
	answer.Store(func(w http.ResponseWriter, _ server.Document) { w.WriteHeader(http.StatusInternalServerError) })
	b.says("#lost", "it answers with the HTTP status 500")
	b.says("#lost", "What is shown below is as it was then.")
	answer.Store(func(w http.ResponseWriter, _ server.Document) {
		_, _ = w.Write([]byte(`{"version": "v9", "bridges": [`))
	})
	b.says("#lost", "its answer is cut off or is no status")
	answer.Store(func(w http.ResponseWriter, _ server.Document) { _, _ = w.Write([]byte(`"hello"`)) })
	b.sees("what is no status", "document.getElementById('lost').textContent.includes('no status') && document.title === 'no answer: bridge'")
	// Of this daemon's fields the least.
	answer.Store(func(w http.ResponseWriter, _ server.Document) {
		_, _ = w.Write([]byte(`{"version": "v9", "ready": true, "bridges": [{"bridge": "orders", "semantic": "EXACTLY_ONCE", "state": "running", "ready": true,
			"waits_for": "the next barrier", "transaction": {"timeout_seconds": 900, "downtime_budget_seconds": 840},
			"sources": null, "maps": {"records_out": 0, "bytes_out": 0, "records_dropped": 0}}]}`))
	})
	b.is(".waits-for", "waits for the next barrier")
	b.says(".budget", "14 min")
}
